"""Credentials that change on disk are followed in place: requests go on, absence is never concluded."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from cluster_kit.scripted import Scripted, status

from gitops.cluster.connection import Connection, ConnectionSettings
from gitops.cluster.errors import ErrorClass, RequestFailed

Connect = Callable[..., Awaitable[Connection]]
AT_ONCE = ConnectionSettings(credentials_check=0.0)


def tokens(script: Scripted) -> list[str]:
    return [request.headers.get("Authorization", "") for request in script.seen]


async def test_a03_a_kubeconfig_whose_link_is_swapped_is_read_again_and_no_request_fails(
    scripted: Scripted, connect: Connect
) -> None:
    """As the kubelet does it for a mounted Secret: the name stays, the link `..data` moves to a new folder."""
    folder = scripted.folder
    for version in ("one", "two"):
        (folder / version).mkdir()
        scripted.kubeconfig({"token": version}, name=f"{version}/dgx-a")
    (folder / "..data").symlink_to("one")
    (folder / "dgx-a").symlink_to("..data/dgx-a")
    connection = await connect(folder / "dgx-a", AT_ONCE)
    async with connection.stream("/watch"):
        await connection.request("GET", "/x")
        (folder / "..tmp").symlink_to("two")
        (folder / "..tmp").rename(folder / "..data")
        shutil.rmtree(folder / "one")
        await connection.request("GET", "/x")
        assert connection.stats.streams == 1, "a token alone closes nothing"
    assert tokens(scripted) == ["Bearer one", "Bearer one", "Bearer two"]
    assert 401 not in connection.stats.answers
    assert not connection.moved


@pytest.mark.parametrize("spoil", ["", "{unclosed", "current-context: c", None], ids=["empty", "cut", "half", "gone"])
async def test_what_cannot_be_read_leaves_in_force_what_was_and_is_read_again_when_it_is_whole(
    scripted: Scripted, connect: Connect, caplog: pytest.LogCaptureFixture, spoil: str | None
) -> None:
    path = scripted.kubeconfig({"token": "one"})
    connection = await connect(path, AT_ONCE)
    path.unlink()
    if spoil is not None:
        path.write_text(spoil)
    for _ in range(5):
        assert (await connection.request("GET", "/x")).ok
    assert len([r for r in caplog.records if "what was read before stays in use" in r.message]) == 1
    with pytest.raises(RequestFailed) as failed:
        await connection.reload()
    assert failed.value.error.cls is ErrorClass.UNAUTHORIZED
    scripted.kubeconfig({"token": "two"})
    await connection.request("GET", "/x")
    assert tokens(scripted) == ["Bearer one"] * 5 + ["Bearer two"]


async def test_a03_a_token_that_is_refused_is_read_again_and_absence_is_not_concluded(
    scripted: Scripted, connect: Connect
) -> None:
    """The old token is invalid before the new one is there: 401 is told as what it is, and only as long."""
    valid = "one"

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({}) if request.headers["Authorization"] == f"Bearer {valid}" else status(401)

    scripted.handler = answer
    token = scripted.folder / "token"
    token.write_text("one")
    connection = await connect(scripted.kubeconfig({"tokenFile": "token"}))
    assert (await connection.request("GET", "/x")).ok
    valid = "two"
    refused = await connection.request("GET", "/x")
    assert refused.error().cls is ErrorClass.UNAUTHORIZED
    token.write_text("two")
    async with connection.stream("/watch"):
        pass
    assert connection.stats.answers == {200: 2, 401: 3}
