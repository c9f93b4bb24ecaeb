"""Every row of the error table, produced for real: by an API server, or by what may stand before one.

A producer gives errors that the server's answers became; each must have fitted the row it is the producer of. A row
without a producer fails, so a text that nobody has seen cannot be in the table.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cluster_kit import error_producers  # noqa: F401  # registers them
from cluster_kit.error_scene import PRODUCERS, Body, Scene
from controlplane_kit.client import ApiServer
from controlplane_kit.controlplane import ControlPlane

from gitops.cluster.connection import Connection
from gitops.cluster.error_table import BY_ID, ROWS, TREATMENTS, ErrorClass
from gitops.cluster.errors import ApiError
from gitops.plan.units import DesiredObject
from gitops.reconcile.attempts import STATE_OF, state_of


@pytest.fixture(scope="module")
def own_plane(controlplane_binaries: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Starts, once, a control plane with controllers of this module, whose etcd and priorities may be changed."""
    made: list[ControlPlane] = []

    def plane() -> ControlPlane:
        if not made:
            folder = tmp_path_factory.mktemp("rows") / "api"
            made.append(ControlPlane(folder, binaries=controlplane_binaries, controllers=True))
            made[0].start()
        return made[0]

    yield plane
    for one in made:
        one.stop()


@pytest_asyncio.fixture
async def scene(
    shared_api: ApiServer,
    namespace: str,
    tmp_path: Path,
    connect: Callable[..., Awaitable[Connection]],
    desired: Callable[[Body], DesiredObject],
    own_plane: Callable[[], ControlPlane],
) -> AsyncIterator[Scene]:
    with contextlib.ExitStack() as leaving:
        yield Scene(shared_api, namespace, tmp_path, connect, desired, leaving, own_plane)


def test_every_row_has_a_producer() -> None:
    assert set(PRODUCERS) == set(BY_ID)


@pytest.mark.parametrize("row", [row.id for row in ROWS])
async def test_a_row_is_what_a_server_answers(row: str, scene: Scene) -> None:
    errors = await PRODUCERS[row](scene)
    assert errors
    for error in errors:
        assert (error.row, error.cls) == (row, BY_ID[row].cls), error
        assert error.message
        if BY_ID[row].waits_for or error.cls is ErrorClass.WAITING:
            assert error.waits_for


def test_every_class_has_a_treatment_and_a_row() -> None:
    assert set(TREATMENTS) == set(ErrorClass) == {row.cls for row in ROWS}
    assert all(0 < t.first <= t.longest <= 3600 for t in TREATMENTS.values())
    assert {str(state_of(ApiError(cls))) for cls in ErrorClass if cls not in STATE_OF} == {"Retrying"}


def test_rows_are_told_apart_and_explained() -> None:
    assert len(BY_ID) == len(ROWS)
    for row in ROWS:
        if row.message is not None and not row.codes:
            assert row.message.search(row.example), row.id
        if row.cls in (ErrorClass.DENIED, ErrorClass.REFUSED, ErrorClass.BLOCKED, ErrorClass.FORBIDDEN):
            assert row.hint, row.id  # nothing happens by itself: people are told what to do
