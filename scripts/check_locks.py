"""Checks the lock files: requirements of pyproject.toml pinned in their ranges, with hashes, without an address.

python scripts/check_locks.py
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)", re.MULTILINE)
_RANGE = re.compile(r"(?P<sign>>=|<|==)(?P<version>[0-9.]+)")


def main() -> int:
    """Print what is wrong, one line each; exit code 1 when something is."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    runtime = project["project"]["dependencies"]
    build = project["build-system"]["requires"]
    expected = {
        "requirements.lock": runtime,
        "requirements-build.lock": build,
        "requirements-dev.lock": [*runtime, *build, *project["dependency-groups"]["dev"]],
    }
    wrong = [f"{file}: {fault}" for file, requirements in expected.items() for fault in _faults(file, requirements)]
    print("\n".join(wrong) or "lock files match pyproject.toml")
    return 1 if wrong else 0


def _faults(file: str, requirements: list[str]) -> list[str]:
    text = (ROOT / file).read_text(encoding="utf-8")
    pins = {_plain(m["name"]): m["version"] for m in _PIN.finditer(text)}
    addresses = [line.strip() for line in text.splitlines() if "://" in line or line.startswith("-")]
    faults = [f"holds an address or option: {line}" for line in addresses]
    if len(re.findall(r"^[^\s#].*\\$", text, re.MULTILINE)) != len(_PIN.findall(text)):
        faults.append("has a requirement without hashes")
    for requirement in requirements:
        name = re.split(r"[<>=;\[ ]", requirement, maxsplit=1)[0]
        pinned = pins.get(_plain(name))
        if pinned is None:
            faults.append(f"lacks {name}; run scripts/lock")
        elif not all(_within(pinned, sign, bound) for sign, bound in _RANGE.findall(requirement.partition(";")[0])):
            faults.append(f"pins {name} {pinned}, outside {requirement}; run scripts/lock")
    return faults


def _within(version: str, sign: str, bound: str) -> bool:
    have, limit = _numbers(version), _numbers(bound)
    return {">=": have >= limit, "<": have < limit, "==": have == limit}[sign]


def _numbers(version: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version))
    return numbers + (0,) * (6 - len(numbers))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
