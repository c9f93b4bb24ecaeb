"""The catalogue of findings: every code says what it is, shows one case and says what to do."""

from __future__ import annotations

import pytest

from gitops.cli.reference import GROUPS, findings_page, load_codes
from gitops.model.catalogue import CATALOGUE, CatalogueEntry, define, finding
from gitops.model.findings import Origin, Severity

load_codes()


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_every_code_has_a_title_a_hint_an_example_and_a_group(code: str) -> None:
    entry = CATALOGUE[code]
    for text in (entry.title, entry.hint, entry.example):
        assert text.strip() == text
        assert text
        assert len(text.splitlines()) == 1
        assert text.count("`") % 2 == 0, f"code without its end: {text}"
    assert code[:3] in GROUPS


def test_no_two_codes_show_the_same_example() -> None:
    assert len({entry.example for entry in CATALOGUE.values()}) == len(CATALOGUE)


def test_codes_are_never_defined_twice() -> None:
    with pytest.raises(ValueError, match="GO2001 is defined twice"):
        define("GO2001", Severity.ERROR, "x", "y", "z")


def test_a_code_cannot_be_defined_without_an_example() -> None:
    with pytest.raises(TypeError, match="example"):
        define("GO9998", Severity.ERROR, "x", "y")
    assert "GO9998" not in CATALOGUE


def test_finding_takes_severity_and_hint_from_the_catalogue() -> None:
    made = finding("GO2001", "gone", Origin("gitops.yaml", 3))
    assert (made.severity, made.hint) == (Severity.ERROR, CATALOGUE["GO2001"].hint)
    assert str(made) == "gitops.yaml:3: error GO2001: gone"
    with pytest.raises(KeyError):
        finding("GO9999", "x", Origin("a"))


@pytest.mark.parametrize(
    ("title", "heading"),
    [
        ("not valid YAML", "Not valid YAML"),
        ("generateName", "generateName"),
        ("gitops.yaml is missing", "gitops.yaml is missing"),
        ("y or n", "y or n"),
        ("%YAML directive", "%YAML directive"),
        ("A null", "A null"),
    ],
)
def test_headings_begin_with_a_capital_unless_they_begin_with_a_name(title: str, heading: str) -> None:
    assert CatalogueEntry("GO9999", Severity.INFO, title, "h", "e").heading == heading


def test_the_page_has_one_row_of_five_cells_for_every_code() -> None:
    rows = [line for line in findings_page().splitlines() if line.startswith("| GO")]
    assert [row.split(" | ", 1)[0] for row in rows] == [f"| {code}" for code in sorted(CATALOGUE)]
    assert {row.replace("\\|", "").count("|") for row in rows} == {6}
