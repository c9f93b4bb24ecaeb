"""Benchmarks run by hand, so what they lean on inside the product is checked here."""

import importlib.util
import inspect
from pathlib import Path

from gitops.cluster.connection import Connection

BENCH = Path(__file__).parent / "bench"


def test_the_connection_that_counts_calls_takes_what_the_real_one_takes() -> None:
    spec = importlib.util.spec_from_file_location("engine_process", BENCH / "engine_process.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ours, real = (inspect.signature(kind._send) for kind in (module.RecordingConnection, Connection))
    assert list(ours.parameters) == list(real.parameters)
