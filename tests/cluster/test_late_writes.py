"""A write that is not wanted any more when its connection is at hand is not sent."""

from collections.abc import Awaitable, Callable

import pytest
from controlplane_kit.client import ApiServer
from controlplane_kit.faultproxy import FaultProxy

from gitops.cluster.connection import NOT_WANTED, PIECE, Connection
from gitops.cluster.errors import ErrorClass, RequestFailed


@pytest.mark.parametrize("size", [2, 3 * PIECE], ids=["small", "in-pieces"])
@pytest.mark.parametrize("warm", [False, True], ids=["new-connection", "kept-connection"])
async def test_what_is_composed_is_not_sent_any_more(
    shared_api: ApiServer,
    fault_proxy: Callable[[ApiServer], FaultProxy],
    connect: Callable[..., Awaitable[Connection]],
    size: int,
    warm: bool,
) -> None:
    proxy = fault_proxy(shared_api)
    connection = await connect(proxy.kubeconfig)
    if warm:
        await connection.request("GET", "/version")
    answers = iter([True, False])
    with pytest.raises(RequestFailed) as failed:
        await connection.request(
            "PATCH", "/api/v1/namespaces/default", body=b"{}".ljust(size), wanted=lambda: next(answers)
        )
    assert (failed.value.error.cls, failed.value.error.reason) == (ErrorClass.STALE, NOT_WANTED)
    assert (await connection.request("GET", "/version")).ok
    assert proxy.seen("PATCH") == []
