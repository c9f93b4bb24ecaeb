"""One control plane for all stories of a process; profiles for how many stories are told."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from controlplane_kit.controlplane import ControlPlane
from model_kit.story import Bench


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory, controlplane_binaries: Any) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("model")
    with ControlPlane(folder / "plane", binaries=controlplane_binaries) as plane, Bench.made(plane, folder) as made:
        yield made


@pytest.fixture(autouse=True)
def buried() -> Iterator[None]:
    """What killed daemons left open is collected here, where nobody complains of it, and not in some later test."""
    yield
    gc.collect()
