"""SARIF: what the standard and GitHub's documented subset ask for, byte for byte the same, and without secrets.

The structure below was checked once against the schema of the OASIS; these tests say the same in our words.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.cli.reference import load_codes
from gitops.model.catalogue import CATALOGUE, finding
from gitops.model.findings import Finding, Origin, Severity
from gitops.model.identity import ObjectRef, WorkloadKind, WorkloadRef
from gitops.report import sarif
from gitops.report.sarif import render_sarif

load_codes()
OBJECT = ObjectRef("apps", "Deployment", "web", "front")
WORKLOAD = WorkloadRef(WorkloadKind.FUNCTION, "llama-chat")


def make(code: str = "GO2004", message: str = "wrong", file: str = "a.yaml", line: int = 3, **more: Any) -> Finding:
    return finding(code, message, Origin(file, line), **more)


def run_of(*findings: Finding, **more: Any) -> dict[str, Any]:
    log = json.loads(render_sarif(findings, **more))
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    assert log["$schema"].endswith("sarif-2.1.0.json")
    return log["runs"][0]


def result_of(one: Finding) -> dict[str, Any]:
    (result,) = run_of(one)["results"]
    return result


def test_every_code_of_the_catalogue_makes_a_rule_and_a_result() -> None:
    findings = [make(code) for code in sorted(CATALOGUE)]
    run = run_of(*findings)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted(CATALOGUE)
    for rule in rules:
        for text in (rule["shortDescription"], rule["fullDescription"], rule["help"]):
            assert 0 < len(text["text"]) <= 1024
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    for result in run["results"]:
        rule = rules[result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
        assert rule["defaultConfiguration"]["level"] == result["level"]
        assert result["message"]["text"]
        assert len(result["locations"]) == 1
        assert all(isinstance(value, str) for value in result["partialFingerprints"].values())


def test_only_codes_that_occur_are_rules() -> None:
    rules = run_of(make("GO5001"), make("GO2004"), make("GO2004", line=9))["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["GO2004", "GO5001"]


def test_without_findings_there_is_an_empty_run() -> None:
    run = run_of()
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])


@pytest.mark.parametrize(("code", "level"), [("GO2004", "error"), ("GO2106", "warning"), ("GO2010", "note")])
def test_levels(code: str, level: str) -> None:
    assert result_of(make(code))["level"] == level


def test_version_is_left_out_when_it_is_not_known() -> None:
    assert run_of(version="1.2.3")["tool"]["driver"]["version"] == "1.2.3"
    assert set(run_of()["tool"]["driver"]) == {"name", "rules"}


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("functions/llama-chat/function.yaml", "functions/llama-chat/function.yaml"),
        ("a b/c#d?e%f.yaml", "a%20b/c%23d%3Fe%25f.yaml"),
        ("c:/x.yaml", "c%3A/x.yaml"),
        ("ü/名.yaml", "%C3%BC/%E5%90%8D.yaml"),
    ],
)
def test_paths_are_relative_references(file: str, uri: str) -> None:
    location = result_of(make(file=file))["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": uri, "uriBaseId": "%SRCROOT%"}
    assert "%SRCROOT%" in run_of(make(file=file))["originalUriBaseIds"]


def test_a_file_outside_the_repository_is_an_absolute_reference() -> None:
    location = result_of(make(file="/tmp/a b.yaml"))["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "file:///tmp/a%20b.yaml"}


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(lambda s: s[0] != "/"))
def test_any_path_comes_back_from_its_reference(file: str) -> None:
    uri = result_of(make(file=file))["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.isascii()
    assert unquote(uri) == file
    assert urlsplit(uri).path == uri


@pytest.mark.parametrize(("line", "region"), [(0, None), (1, {"startLine": 1}), (300, {"startLine": 300})])
def test_a_region_only_where_the_line_is_known(line: int, region: object) -> None:
    assert result_of(make(line=line))["locations"][0]["physicalLocation"].get("region") == region


def test_object_and_workload_are_logical_locations() -> None:
    found = result_of(make(object=OBJECT, workload=WORKLOAD))["locations"][0]["logicalLocations"]
    assert found == [
        {"name": "front", "fullyQualifiedName": "Deployment.apps web/front", "kind": "resource"},
        {"name": "llama-chat", "fullyQualifiedName": "function/llama-chat", "kind": "resource"},
    ]
    assert "logicalLocations" not in result_of(make())["locations"][0]


# -- fingerprints -----------------------------------------------------------------------------------------------------

BASE = make("GO1010", "the key x is written on line 3 and line 5", path=("spec", "x"), object=OBJECT)


def prints(*findings: Finding) -> list[dict[str, str]]:
    return [result["partialFingerprints"] for result in run_of(*findings)["results"]]


@pytest.mark.parametrize(
    "moved",
    [
        replace(BASE, origin=Origin("a.yaml", 40)),
        replace(BASE, message="the key x is written on line 39 and line 40"),
        replace(BASE, hint="another hint"),
    ],
    ids=["line", "lines in the message", "hint"],
)
def test_fingerprints_stay_when_lines_move(moved: Finding) -> None:
    assert prints(moved) == prints(BASE)


def test_fingerprints_stay_when_a_place_in_another_file_moves() -> None:
    one, two = (make("GO5002", f"is also declared by bundle/b at b/c.yaml:{line}") for line in (7, 9))
    assert prints(one) == prints(two)


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, code="GO1011"),
        replace(BASE, origin=Origin("b.yaml", 3)),
        replace(BASE, object=None),
        replace(BASE, path=("spec", "y")),
        replace(BASE, message="another"),
    ],
    ids=["code", "file", "object", "path", "message"],
)
def test_fingerprints_tell_findings_apart(other: Finding) -> None:
    assert prints(other) != prints(BASE)


def test_equal_findings_of_one_file_are_numbered() -> None:
    values = [p["findingHash/v1"] for p in prints(BASE, replace(BASE, origin=Origin("a.yaml", 9)))]
    assert [v.partition(":")[2] for v in values] == ["1", "2"]
    assert len({v.partition(":")[0] for v in values}) == 1


def test_github_gets_its_fingerprint_where_it_can_make_none() -> None:
    """Its upload action makes primaryLocationLineHash from the line, and complains about another value."""
    (with_line, without) = prints(make(line=3), make(line=0, message="other"))
    assert set(with_line) == {"findingHash/v1"}
    assert without["primaryLocationLineHash"] == without["findingHash/v1"]


# -- text of others ---------------------------------------------------------------------------------------------------


@given(st.text())
def test_messages_hold_neither_links_nor_placeholders_nor_control_characters(text: str) -> None:
    message = result_of(make(message="m " + text))["message"]["text"]
    assert not re.search(r"\]\(", message)
    assert not re.search(r"(?<!\{)\{\d+\}(?!\})", message)
    assert all(c.isprintable() or c == "\u200b" for c in message)


def test_messages_read_as_they_were() -> None:
    assert result_of(make(message="spec.gpus[0] is {a: 1}"))["message"]["text"] == "spec.gpus[0] is {a: 1}"
    assert (
        result_of(make(message="[x](http://e.example) {0}"))["message"]["text"] == "[x]\u200b(http://e.example) {{0}}"
    )


def test_no_secret_and_no_source_line() -> None:
    text = render_sarif([make("GO4202", "data.key looks like nvapi-" + "k" * 60)])
    assert "kkk" not in text
    assert "snippet" not in text


# -- the whole --------------------------------------------------------------------------------------------------------


def test_results_are_worst_first_and_the_least_severe_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "RESULT_LIMIT", 3)
    findings = [make("GO2010", line=1), make("GO2106", line=2), make("GO2004", line=3), make("GO2004", line=4)]
    run = run_of(*findings)
    assert [result["level"] for result in run["results"]] == ["error", "error", "warning"]
    assert "GO2010" not in [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is True
    assert invocation["toolExecutionNotifications"][0]["message"]["text"].startswith("1 more findings")


def test_the_same_findings_give_the_same_bytes() -> None:
    findings = [make(line=n, message=f"{n} ü") for n in range(5)]
    text = render_sarif(findings, version="1")
    assert text == render_sarif(list(findings), version="1")
    assert text.isascii()
    assert "invocations" not in text


def test_severities_are_all_known() -> None:
    assert {make(code).severity for code in ("GO2004", "GO2106", "GO2010")} == set(Severity)
