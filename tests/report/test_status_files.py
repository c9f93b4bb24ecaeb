"""Status files: paths, determinism, no churn, nothing secret, nothing unbounded, reading back."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gitops.model.identity import ClusterName, ObjectRef, UnitKey, WorkloadKind, WorkloadRef
from gitops.plan.naming import file_name
from gitops.readiness.aggregating import ObjectRow, UnitCondition, UnitStatus
from gitops.readiness.functions import InstanceView, cluster_status, function_status
from gitops.readiness.statuses import Flag, Status
from gitops.report.paths import checked, cluster_path, unit_path, workload_path
from gitops.report.readme import render_readme
from gitops.report.status_files import (
    UnitReport,
    WorkloadReport,
    read_since,
    render_cluster,
    render_placements,
    render_unit,
    render_unreachable,
    render_workload,
    stamp,
)

KEY = UnitKey.parse("function/llama-chat/h100-0@dgx-a")
REF = ObjectRef("apps.nvidia.com", "NIMService", "fn-llama", "llama")
AT = 1_796_000_000.0


def unit(status: Status = Status.PROGRESSING, **more: Any) -> UnitStatus:
    row = ObjectRow(REF, status, "NotReady", more.pop("message", "0 of 2 updated"), frozenset({Flag.STALE}))
    values: dict[str, Any] = {
        "status": status,
        "reason": "NotReady",
        "cause": f"NIMService llama is {status}: {row.message}",
        "ready_count": 1,
        "expected_count": 2,
        "since": AT,
        "phase": "Starting",
        "conditions": (UnitCondition("ObjectsHealthy", "False", "WaitingOnObjectReadiness", AT, "NIMService llama"),),
        "objects": (row,),
    }
    return UnitStatus(**(values | more))


def report(status: UnitStatus, **more: Any) -> UnitReport:
    return UnitReport(KEY, status, commit="abc123", version="1", namespace="fn-llama", **more)


def function(
    *instances: InstanceView, previous: tuple[str, float] | None = None, held: tuple[str, ...] = ()
) -> WorkloadReport:
    status = function_status(instances, previously_active=False, now=AT, previous=previous)
    return WorkloadReport(WorkloadRef(WorkloadKind.FUNCTION, "llama-chat"), status, version="1", held=held)


def view(status: Status, cause: str = "", **more: Any) -> InstanceView:
    return InstanceView(KEY, status, AT, cause=cause, ready_count=1, expected_count=2, **more)


# -- paths -----------------------------------------------------------------------------------------------------------


def test_paths_of_plain_names() -> None:
    assert unit_path(KEY) == "status/units/dgx-a/function.llama-chat.h100-0.yaml"
    assert unit_path(UnitKey.parse("bundle/monitoring@dgx-a")) == "status/units/dgx-a/bundle.monitoring.yaml"
    assert workload_path(KEY.workload) == "status/functions/llama-chat.yaml"
    assert cluster_path(ClusterName("dgx-a")) == "status/clusters/dgx-a.yaml"


def test_g15_names_that_differ_in_case_only_get_different_files() -> None:
    paths = [workload_path(WorkloadRef(WorkloadKind.FUNCTION, n)) for n in ("Llama-A", "llama-a", "LLAMA-A")]
    assert len({p.casefold() for p in paths}) == 3
    assert paths[1] == "status/functions/llama-a.yaml"


ODD = [
    "../../.github/workflows/x",
    "a/b",
    "CON",
    "con",
    ".git",
    ".",
    "..",
    "a\0b",
    "x" * 253,
    "",
    "é",
    "e\u0301",
    "a.b",
    "-x",
]


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_x08_no_name_leaves_the_status_folder(name: str) -> None:
    key = dataclasses.replace(KEY, name=name, instance=name, cluster=ClusterName(name or "x"))
    for path in (unit_path(key), workload_path(key.workload)):
        assert path.startswith("status/")
        assert path == checked(path)
        assert all(len(element) <= 255 for element in path.split("/"))
        assert not {"..", ".git", "con"} & set(path.replace(".yaml", "").split("/"))


@pytest.mark.parametrize("path", ["status/../x", "other/x", "status//x", "status/.git/x", "/status/x", "status/A"])
def test_x08_what_is_no_status_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        checked(path)


@given(st.lists(st.text(max_size=80), min_size=2, max_size=2, unique=True))
def test_g15_different_names_never_share_a_file(names: list[str]) -> None:
    first, second = (file_name(n).casefold() for n in names)
    assert first != second


# -- content ---------------------------------------------------------------------------------------------------------


def test_a_unit_file_says_what_people_need() -> None:
    path, data = render_unit(report(unit()))
    body = yaml.safe_load(data)
    assert path == unit_path(KEY)
    assert body["unit"] == "function/llama-chat/h100-0@dgx-a"
    assert (body["status"], body["ready"], body["since"]) == ("Progressing", "1/2", stamp(AT))
    assert body["objects"][0]["object"] == "NIMService.apps.nvidia.com fn-llama/llama"
    assert body["objects"][0]["flags"] == ["stale"]
    assert render_unit(report(unit()))[1] == data, "deterministic"


def test_g04_counters_in_messages_and_times_change_nothing() -> None:
    _, before = render_unit(report(unit()))
    moved = unit(message="1 of 2 updated", since=AT + 99, cause="something else in words")
    assert render_unit(report(moved), previous=before)[1] == before


@pytest.mark.parametrize(
    "changed",
    [
        unit(Status.READY),
        unit(reason="Other"),
        unit(ready_count=2),
        unit(phase="Running"),
        unit(objects=()),
        unit(flags=frozenset({Flag.UNVERIFIED})),
    ],
)
def test_what_means_something_changes_the_file(changed: UnitStatus) -> None:
    _, before = render_unit(report(unit()))
    assert render_unit(report(changed), previous=before)[1] != before


def test_a_refused_apply_and_held_findings_are_shown() -> None:
    _, before = render_unit(report(unit()))
    held = report(unit(), held=("functions/a/function.yaml:3: error GO1003: no",))
    _, data = render_unit(held, previous=before)
    assert yaml.safe_load(data)["held"] == ["functions/a/function.yaml:3: error GO1003: no"]


def test_an_unreachable_cluster_is_unknown_since_then_with_the_last_known_status() -> None:
    _, data = render_unit(report(unit(Status.READY, cause=""), unreachable_since=AT + 60))
    body = yaml.safe_load(data)
    assert (body["status"], body["reason"], body["lastKnown"]) == ("Unknown", "Unreachable", "Ready")
    assert body["since"] == stamp(AT + 60)


@pytest.mark.parametrize(
    "rest",
    [
        "1: number\n",
        "? [a, b]\n: list\n",
        "extra: " + "[" * 400 + "]" * 400,
        "me: &me [*me]\n",
        "objects: &o [*o]\n",
        "}",
    ],
    ids=["number as key", "list as key", "deep", "circle", "circle in a field of ours", "no YAML"],
)
def test_what_others_write_into_a_file_never_keeps_us_from_writing(rest: str) -> None:
    known = f"apiVersion: gitops/v1alpha1\nkind: UnitStatus\nstatus: Ready\ncommit: c0ffee\n{rest}"
    data = render_unreachable(known.encode(), KEY, since=1.0)
    if data is not None:
        body = yaml.safe_load(data)
        assert (body["status"], body["lastKnown"], body["commit"]) == ("Unknown", "Ready", "c0ffee")
        assert not {1, "extra", "me"} & body.keys()


def test_i5_no_credential_reaches_a_file() -> None:
    secret = "pull https://bot:s3cr3t@registry/x with nvapi-0123456789abcdef"
    everything = report(unit(message=secret, cause=secret), outcome=secret, held=(secret,))
    _, data = render_unit(everything)
    assert b"s3cr3t" not in data
    assert b"nvapi-0" not in data


def test_lists_are_bounded() -> None:
    views = [InstanceView(UnitKey.parse(f"function/f/h-{n}@c"), Status.READY, AT) for n in range(300)]
    body = yaml.safe_load(render_workload(function(*views))[1])
    assert (len(body["instances"]), body["instancesOmitted"]) == (100, 200)


def test_foreign_text_cannot_add_keys() -> None:
    _, data = render_unit(report(unit(cause="x\nstatus: Ready\n- a: !!python/object:x {}")))
    body = yaml.safe_load(data)
    assert body["status"] == "Progressing"
    assert body["cause"] == "x status: Ready - a: !!python/object:x {}"


def test_cluster_and_placements() -> None:
    status = cluster_status(
        ClusterName("dgx-a"), reachable=False, now=AT, units=[view(Status.READY)], message="timeout"
    )
    path, data = render_cluster(status)
    body = yaml.safe_load(data)
    assert path == "status/clusters/dgx-a.yaml"
    assert (body["status"], body["units"], body["since"]) == ("Unreachable", {"Unknown": 1}, stamp(AT))
    placed = yaml.safe_load(render_placements([KEY])[1])["placements"]
    assert placed == {"function/llama-chat": {"h100-0": "dgx-a"}}


# -- reading back ----------------------------------------------------------------------------------------------------


def test_a_restart_takes_since_and_activity_from_the_file() -> None:
    _, data = render_workload(function(view(Status.READY)))
    previous = read_since(data)
    assert previous is not None
    assert (previous.state, previous.since, previous.previously_active) == ("ACTIVE", AT, True)
    again = function(view(Status.READY), previous=previous.pair)
    assert render_workload(again, previous=data)[1] == data
    conditions = (
        UnitCondition("Installed", "True", "", AT - 60.0, ""),
        UnitCondition("ObjectsHealthy", "False", "NotReady", AT - 5.0, "it's: - type: A\n  status: 'x'"),
    )
    _, data = render_unit(report(unit(Status.READY, conditions=conditions)))
    restored = read_since(data)
    assert restored is not None
    memory = restored.unit_memory()
    assert (memory.status, memory.since) == (Status.READY, AT)
    assert memory.conditions == {c.type: (c.status, c.since) for c in conditions}


@pytest.mark.parametrize(
    "data",
    [None, b"", b"\xff\xfe", b"[1", b"a: 1", b"apiVersion: gitops/v1alpha1\nstatus: Ready", b"- x", b"&a [*a]"],
)
def test_a_file_that_is_not_ours_is_as_good_as_none(data: bytes | None) -> None:
    assert read_since(data) is None
    assert render_unit(report(unit()), previous=data)[1] == render_unit(report(unit()))[1]


# -- README ----------------------------------------------------------------------------------------------------------


def readme(*reports: WorkloadReport, head: str = "abc123", **more: Any) -> str:
    clusters = [cluster_status(ClusterName("dgx-a"), reachable=True, now=AT, units=[view(Status.READY)])]
    return render_readme(head=head, branch="main", workloads=reports, clusters=clusters, **more)[1].decode()


def test_the_readme_names_the_head_and_links_the_files() -> None:
    text = readme(function(view(Status.READY)))
    assert "Observed head: `abc123` of `main`." in text
    assert "| 🟢 | [function/llama-chat](functions/llama-chat.yaml) | ACTIVE | 1/1 |" in text
    assert "[dgx-a](clusters/dgx-a.yaml) | Reachable |" in text


def test_the_readme_changes_with_the_head_and_not_with_messages() -> None:
    before = readme(function(view(Status.PROGRESSING, "1 of 3")))
    assert readme(function(view(Status.PROGRESSING, "2 of 3")), previous=before.encode()) == before
    assert readme(function(view(Status.PROGRESSING, "2 of 3")), head="def", previous=before.encode()) != before
    held = function(view(Status.PROGRESSING, "2 of 3"), held=("x.yaml:1: bad",))
    assert "(held)" in readme(held, previous=before.encode())


def test_foreign_text_has_no_effect_in_markdown() -> None:
    text = readme(function(view(Status.FAILED, "a | b [x](http://evil) <img src=x> @team `rm`")))
    assert "[x](http" not in text
    assert "<img" not in text
    assert " | b " not in text
    assert "@team" not in text


def test_the_readme_says_when_nothing_can_be_pruned() -> None:
    assert "nothing is pruned" in readme(complete=False)
    assert "None is declared." in readme()
