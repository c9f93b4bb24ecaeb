"""What every test folder shares: the fixtures of tests/controlplane (see its plugin module for what they give)."""

import asyncio
import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["controlplane_kit.plugin"]

# Laws are checked by number of examples, never by time: machines are shared.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# CI draws the same examples each time: pytest --hypothesis-profile=fixed.
settings.register_profile("fixed", settings.get_profile("untimed"), derandomize=True, database=None)
settings.load_profile("untimed")


def pytest_sessionstart(session: pytest.Session) -> None:
    """No implicit event loop: looptime asks for the current one before every test, and Python 3.11 would make one that
    nobody closes."""
    asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Commands send all logging to the standard error of their test; no later test is to write there."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
