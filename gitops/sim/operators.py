"""Plays the operators of one cluster: `python -m gitops.sim.operators --kubeconfig FILE [--crds]`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
from pathlib import Path

import yaml

from gitops.sim import CRDS
from gitops.sim.api import Api, ApiError, Body
from gitops.sim.dynamo import DynamoOperator
from gitops.sim.kinds import DEFINITION
from gitops.sim.nim import NimOperator
from gitops.sim.volumes import Provisioner

OPERATORS = (DynamoOperator, NimOperator, Provisioner)


async def install_definitions(kubeconfig: Path, folder: Path = CRDS) -> list[str]:
    """Create the CustomResourceDefinitions of a folder and wait until they are served. Returns their names.

    Those that exist are left as they are: the cluster may have the real ones.
    """
    definitions = await asyncio.to_thread(_read_definitions, folder)
    async with Api.open(kubeconfig, manager="crd-installer") as api:
        for body in definitions:
            try:
                await api.create(DEFINITION, body)
            except ApiError as error:
                if error.code != 409:
                    raise
        missing = {body["metadata"]["name"] for body in definitions}
        listed = await api.list(DEFINITION)
        missing -= {body["metadata"]["name"] for body in listed["items"] if _established(body)}
        if missing:
            async with contextlib.aclosing(api.watch(DEFINITION, listed["metadata"]["resourceVersion"])) as events:
                async for _, body in events:
                    if _established(body):
                        missing.discard(body["metadata"]["name"])
                    if not missing:
                        break
    return [body["metadata"]["name"] for body in definitions]


async def play(kubeconfig: Path) -> None:
    """Run all operators against one cluster until cancelled."""
    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        for operator in OPERATORS:
            api = await stack.enter_async_context(Api.open(kubeconfig, manager=operator.manager))
            group.create_task(operator(api).run(), name=operator.manager)


def _read_definitions(folder: Path) -> list[Body]:
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml"))]


def _established(body: Body) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


async def _main(kubeconfig: Path, *, crds: bool) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        if crds:
            await install_definitions(kubeconfig)
        await play(kubeconfig)


def main() -> None:
    parser = argparse.ArgumentParser(description="Play the Dynamo and NIM operators against a cluster.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--crds", action="store_true", help="create the CustomResourceDefinitions first")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(_main(arguments.kubeconfig, crds=arguments.crds))


if __name__ == "__main__":
    main()
