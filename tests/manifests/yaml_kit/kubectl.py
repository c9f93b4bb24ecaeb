"""What kubectl makes of a file, without a cluster: `kubectl label --local -o json` reads, sets a label and prints."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane_kit import binaries

PROGRAM = binaries.kubectl()


@dataclass
class Answer:
    """The objects of a file, each comparable(), and why kubectl stopped, if it did."""

    objects: list[Any] = field(default_factory=list)
    refused: str = ""


def read_one(data: bytes) -> Answer:
    """A file on its own."""
    done = _run({"x": data})
    return Answer(_objects(done.stdout), done.stderr.strip())


def read_many(files: Mapping[str, bytes]) -> dict[str, Answer]:
    """Many files in one call. An object belongs to the file that its name starts with, up to the first `-`; objects of
    other names are in no answer, so whoever finds a difference asks read_one()."""
    done = _run(files)
    answers = {name: Answer() for name in files}
    for item in _objects(done.stdout):
        metadata = item.get("metadata")
        name = str(metadata.get("name")) if isinstance(metadata, dict) else ""
        if answer := answers.get(name.partition("-")[0]):
            answer.objects.append(item)
    for line in done.stderr.splitlines():
        if found := re.search(r"/([^/]+)\.yaml", line):
            answers[found[1]].refused = line
    return answers


def comparable(item: Any) -> Any:
    """An object without the label that the command sets, and without what is empty then: both sides may have it so."""
    if not isinstance(item, dict) or not isinstance(item.get("metadata", {}), dict):
        return item
    metadata = dict(item.get("metadata", {}))
    if isinstance(metadata.get("labels", {}), dict):
        metadata["labels"] = {key: value for key, value in metadata.get("labels", {}).items() if key != "l"}
    if not metadata.get("labels"):
        metadata.pop("labels", None)
    rest = {key: value for key, value in item.items() if key != "metadata"}
    return {**rest, "metadata": metadata} if metadata else rest


def _run(files: Mapping[str, bytes]) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            Path(folder, f"{name}.yaml").write_bytes(data)
        command = [str(PROGRAM), "label", "--local", "-f", folder, "l=1", "-o", "json"]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)


def _objects(text: str) -> list[Any]:
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text):
        item, at = decoder.raw_decode(text, at)
        at += len(text[at : at + 99]) - len(text[at : at + 99].lstrip())
        found.extend(item["items"] if item["kind"] == "List" and "items" in item else [item])
    return [comparable(item) for item in found]
