"""Every public failure case of the parts that exist has a test which carries its id in its name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PARTS = "YPXSORNDA"
"""Letters of the parts that are whole. Those of Git and readiness (G, L) join when theirs are."""


def named_in_tests() -> set[str]:
    """Ids in names of test functions, as `test_s08_…` or `test_y01_y02_…`, and of their data, as `id: p11-…`."""
    here = Path(__file__).parent
    code = (path.read_text(encoding="utf-8") for path in here.rglob("test_*.py"))
    data = (path.read_text(encoding="utf-8") for path in here.rglob("data/*.yaml"))
    names = [name for text in code for name in re.findall(r"def (test_\w+)", text)]
    found = {part.upper() for name in names for part in re.findall(r"(?<=_)[a-z]\d\d(?=_|$)", name)}
    return found | {case.upper() for text in data for case in re.findall(r"\bid: ([a-z]\d\d)-", text)}


def test_each_case_has_a_test_by_its_id(shared: Path) -> None:
    listed = set(re.findall(r"^### ([A-Z]\d\d) ", (shared / "cases.md").read_text(encoding="utf-8"), re.MULTILINE))
    wanted = {case for case in listed if case[0] in PARTS}
    assert len(wanted) > 80
    if missing := sorted(wanted - named_in_tests()):
        pytest.fail(f"no test carries the ids {', '.join(missing)}")
