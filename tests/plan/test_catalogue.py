"""docs/findings.md and the tables of docs/documents.md are what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from gitops.model.catalogue import CATALOGUE, define, finding
from gitops.model.findings import Origin, Severity

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("findings_script", ROOT / "scripts" / "findings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.load_codes()
    return module


def test_pages_are_up_to_date(script):
    for path, text in script.pages().items():
        assert path.read_text(encoding="utf-8") == text, "run: python scripts/findings.py"


def test_every_code_has_a_title_a_hint_and_a_group(script):
    for code, entry in CATALOGUE.items():
        assert entry.title, code
        assert entry.hint, code
        assert code[:3] in script.GROUPS, code


def test_codes_are_never_defined_twice(script):
    with pytest.raises(ValueError, match="GO2001 is defined twice"):
        define("GO2001", Severity.ERROR, "x", "y")


def test_finding_takes_severity_and_hint_from_the_catalogue(script):
    made = finding("GO2001", "gone", Origin("gitops.yaml", 3))
    assert (made.severity, made.hint) == (Severity.ERROR, CATALOGUE["GO2001"].hint)
    assert str(made) == "gitops.yaml:3: error GO2001: gone"
    with pytest.raises(KeyError):
        finding("GO9999", "x", Origin("a"))
