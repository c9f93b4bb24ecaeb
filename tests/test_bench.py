"""Benchmarks run by hand, so what they lean on inside the product is checked here."""

import importlib
import inspect
from pathlib import Path

import pytest

from gitops.cluster.connection import Connection

BENCH = Path(__file__).parent / "bench"


@pytest.fixture(autouse=True)
def _beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when one of them is run."""
    monkeypatch.syspath_prepend(BENCH)


@pytest.mark.parametrize("name", sorted(file.stem for file in BENCH.glob("*.py")))
def test_every_benchmark_finds_what_it_imports(name: str) -> None:
    assert importlib.import_module(name).__doc__


def test_the_connection_that_counts_calls_takes_what_the_real_one_takes() -> None:
    counting = importlib.import_module("engine_process").RecordingConnection
    ours, real = (inspect.signature(kind._send) for kind in (counting, Connection))
    assert list(ours.parameters) == list(real.parameters)
