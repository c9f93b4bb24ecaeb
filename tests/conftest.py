"""What every test folder shares: the fixtures of tests/controlplane (see its plugin module for what they give)."""

import asyncio

import pytest

pytest_plugins = ["controlplane_kit.plugin"]


def pytest_sessionstart(session: pytest.Session) -> None:
    """No implicit event loop: looptime asks for the current one before every test, and Python 3.11 would make one that
    nobody closes."""
    asyncio.set_event_loop(None)
