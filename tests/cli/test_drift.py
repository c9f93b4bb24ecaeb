"""`gitops drift` over reports of a daemon: what is shown, grouped, followed, and which exit code says so."""

from __future__ import annotations

import dataclasses
import datetime
import json
import time
from pathlib import Path
from typing import Any

import pytest

from gitops.cli.drift_following import follow
from gitops.cli.drift_view import DriftView, Filter, narrowed
from gitops.cluster.additions import Addition, Additions
from gitops.model.findings import Origin
from gitops.model.identity import ObjectRef, UnitKey
from gitops.report.drift import DriftKind, DriftRecord, Repair
from gitops.report.drift_files import UnitDrift, render_drift
from gitops.report.paths import drift_path
from gitops.source.errors import SourceError, SourceErrorClass

APP, CHAT = UnitKey.parse("bundle/app@dgx-a"), UnitKey.parse("function/chat/h100-0@dgx-b")
MAP = ObjectRef("", "ConfigMap", "app", "settings")
START = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


def record(unit: UnitKey, path: str, **more: Any) -> DriftRecord:
    values = {
        "unit": unit,
        "object": MAP,
        "kind": DriftKind.CHANGED,
        "path": path,
        "field": (),
        "declared": "info",
        "declared_at": Origin("bundles/app/manifests/settings.yaml", 6),
        "live": "debug",
        "manager": "kubectl-edit",
        "operation": "Update",
        "subresource": "",
        "time": "2026-03-01T12:00:00Z",
        "detected_at": START,
    }
    return DriftRecord(**{**values, **more})


OPEN = record(APP, "data.level", repaired=Repair.REPORTED)
OVER = record(CHAT, "data.mode", repaired=Repair.REPAIRED, manager="<b>bot|", count=3, first_at=START, ended_at=START)
ADDED = {MAP: Additions((Addition("data.manual", "k9s", "Update", "2026-03-01T12:00:00Z"),))}


@dataclasses.dataclass
class Reports:
    """A folder that a daemon wrote its reports into, and the arguments that lead to it."""

    folder: Path

    def write(self, *drifts: UnitDrift, **clusters: str) -> None:
        for drift in drifts:
            self._put(drift_path(drift.unit), render_drift(drift))
        for name, state in ({"dgx-a": "Reachable", "dgx-b": "Reachable"} | clusters).items():
            since = "2026-03-01T12:00:00Z"
            self.put_status(f"clusters/{name}", kind="ClusterStatus", name=name, status=state, since=since)

    def put_status(self, path: str, **body: str) -> None:
        self._put(f"status/{path}.yaml", json.dumps({"apiVersion": "gitops/v1alpha1", **body}).encode())

    def _put(self, path: str, content: bytes) -> None:
        file = self.folder / "status" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    @property
    def arguments(self) -> tuple[object, ...]:
        return ("--path", self.folder, "--state-dir", self.folder)


@pytest.fixture
def reports(tmp_path: Path) -> Reports:
    return Reports(tmp_path)


@pytest.fixture
def both(reports: Reports) -> Reports:
    reports.write(UnitDrift(APP, (OPEN,), added=ADDED), UnitDrift(CHAT, (OVER,)))
    return reports


def test_nothing_is_told_and_nothing_differs_are_not_the_same(gitops: Any, reports: Reports) -> None:
    nothing = gitops("drift", *reports.arguments)
    assert (nothing.code, nothing.out, nothing.err) == (4, "", "gitops: Nothing is reported yet.\n")
    reports.write()
    fine = gitops("drift", *reports.arguments)
    assert (fine.code, fine.out) == (0, "Nothing differs from Git.\n")
    reports.write(**{"dgx-b": "Unreachable"})
    silent = gitops("drift", *reports.arguments)
    assert (silent.code, "cluster dgx-b: it does not answer since 2026" in silent.err) == (4, True)
    assert silent.out == "Nothing is known to differ from Git, and not every cluster answers.\n"
    assert gitops("drift", "--cluster", "dgx-a", *reports.arguments).code == 0


@pytest.mark.parametrize("format", ["text", "json", "markdown"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ap",), "workload ap"),
        (("--unit", "bundle/ap@*"), "unit bundle/ap@*"),
        (("--cluster", "dgx-x"), "cluster dgx-x"),
        (("--by", "manager", "ap", "--cluster", "dgx-a"), "workload ap, cluster dgx-a"),
    ],
)
def test_what_is_misspelled_is_not_what_has_no_drift(
    gitops: Any, both: Reports, arguments: tuple[str, ...], words: str, format: str
) -> None:
    shown = gitops("drift", *arguments, *both.arguments, "-f", format)
    assert (shown.code, shown.err) == (4, f"gitops: Nothing is reported of {words}.\n")
    assert "Nothing differs" not in shown.out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("calm",), 0), (("--unit", "bundle/calm@*"), 0), (("empty",), 0), (("cal?",), 0), (("unit",), 4)],
)
def test_what_is_reported_without_drift_differs_in_nothing(
    gitops: Any, both: Reports, arguments: tuple[str, ...], code: int
) -> None:
    both.put_status("units/dgx-a/bundle.calm", kind="UnitStatus", unit="bundle/calm@dgx-a")
    both.put_status("functions/empty", kind="FunctionStatus", name="empty")
    both.put_status("units/dgx-a/others", kind="UnitStatus", unit="unit")
    assert gitops("drift", *arguments, *both.arguments).code == code


def test_a_line_says_everything_of_a_drift(gitops: Any, both: Reports) -> None:
    shown = gitops("drift", *both.arguments)
    assert shown.code == 3
    assert shown.out.splitlines() == [
        "Open (1)",
        '  2026-03-01T12:00:00Z  bundle/app@dgx-a  data.level of ConfigMap app/settings is "debug", declared at '
        'bundles/app/manifests/settings.yaml:6 as "info"; by kubectl-edit (Update); reported only',
        "Over lately (1)",
        '  2026-03-01T12:00:00Z  function/chat/h100-0@dgx-b  data.mode of ConfigMap app/settings is "debug", declared '
        'at bundles/app/manifests/settings.yaml:6 as "info"; by <b>bot| (Update) (3 times since 2026-03-01T12:00:00Z); '
        "repaired",
        "Unmanaged additions: nobody in Git declares them, and they are left alone",
        "  2026-03-01T12:00:00Z  bundle/app@dgx-a  data.manual of ConfigMap app/settings; by k9s (Update)",
    ]


@pytest.mark.parametrize(
    ("arguments", "units", "code"),
    [
        (("chat",), ["function/chat/h100-0@dgx-b"], 0),
        (("--cluster", "dgx-a"), ["bundle/app@dgx-a"], 3),
        (("--unit", "function/*/h100-?@*"), ["function/chat/h100-0@dgx-b"], 0),
        (("--open",), ["bundle/app@dgx-a"], 3),
        (("app", "--cluster", "dgx-b"), [], 0),
    ],
)
def test_what_is_asked_for_is_shown(
    gitops: Any, both: Reports, arguments: tuple[str, ...], units: list[str], code: int
) -> None:
    shown = gitops("drift", *arguments, *both.arguments, "-f", "json")
    assert ([row["unit"] for row in json.loads(shown.out)["records"]], shown.code) == (units, code)


def test_by_manager_counts_who_changes_what(gitops: Any, both: Reports) -> None:
    counted = json.loads(gitops("drift", "--by", "manager", *both.arguments, "-f", "json").out)
    assert [(row["name"], row["open"], row["times"]) for row in counted["groups"]] == [
        ("kubectl-edit", 1, 1),
        ("<b>bot|", 0, 3),
    ]
    assert counted["groups"][0]["files"] == ["bundles/app/manifests/settings.yaml"]
    table = gitops("drift", "--by", "manager", *both.arguments)
    assert (table.code, "kubectl-edit" in table.out) == (3, True)
    assert (
        "| &lt;b&gt;bot&#124; | 0 | 3 | 1 |"
        in gitops("drift", "--by", "manager", *both.arguments, "-f", "markdown").out
    )
    for by, first in (
        ("cluster", "dgx-a"),
        ("workload", "bundle/app"),
        ("file", "bundles/app/manifests/settings.yaml"),
    ):
        body = json.loads(gitops("drift", "--by", by, *both.arguments, "-f", "json").out)
        assert body["groups"][0]["name"] == first


def test_markdown_is_inert(gitops: Any, both: Reports) -> None:
    text = gitops("drift", *both.arguments, "-f", "markdown").out
    assert "<b>" not in text
    assert '| "info" | "debug" | kubectl-edit (Update) |' in text
    assert "data.manual" in text


def test_a_file_that_others_broke_is_as_if_it_were_not_there(gitops: Any, both: Reports) -> None:
    (both.folder / "status" / drift_path(APP)).write_bytes(b"{")
    shown = gitops("drift", *both.arguments)
    assert (shown.code, "Open" in shown.out) == (0, False)


# -- following -------------------------------------------------------------------------------------------------------


class Ended(Exception):
    """As Ctrl-C does."""


def followed(*looks: DriftView | Exception) -> tuple[list[str], list[float]]:
    """What `--watch` says of these looks, and how long it waited after each."""
    left, said, pauses = list(looks), [], []

    def look() -> DriftView:
        if not left:
            raise Ended
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    with pytest.raises(Ended):
        follow(
            look,
            say=lambda r: said.append(f"{r.unit.cluster} {r.path} {r.count} {r.repaired}"),
            tell=said.append,
            pause=pauses.append,
            interval=10,
        )
    return said, pauses


def view(*records: DriftRecord) -> DriftView:
    return DriftView(tuple(UnitDrift(r.unit, (r,)) for r in records))


def test_what_is_open_is_said_first_and_then_each_news_once() -> None:
    again = dataclasses.replace(OVER, count=4)
    repaired = OPEN.with_repair(Repair.REPAIRED, START)
    said, pauses = followed(view(OPEN, OVER), view(OPEN, OVER), view(OPEN, again), view(repaired, again), view(again))
    assert said == ["dgx-a data.level 1 reported", "dgx-b data.mode 4 repaired", "dgx-a data.level 1 repaired"]
    assert pauses == [10] * 5


def test_an_unreachable_remote_is_told_and_looked_at_again_after_longer_and_longer() -> None:
    trouble = SourceError(SourceErrorClass.UNREACHABLE, "git.example does not answer")
    said, pauses = followed(trouble, view(OPEN), trouble, trouble, OSError("disk"), view(OPEN), view())
    assert said == [
        "git.example does not answer; looking again in 10 s",
        "the reports can be read again",
        "dgx-a data.level 1 reported",
        "git.example does not answer; looking again in 10 s",
        "git.example does not answer; looking again in 20 s",
        "disk; looking again in 40 s",
        "the reports can be read again",
    ]
    assert pauses == [10, 10, 10, 20, 40, 10, 10]
    assert max(followed(*[trouble] * 12)[1]) == 300


def test_watch_ends_cleanly_at_ctrl_c(gitops: Any, both: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", stop)
    ended = gitops("drift", "--watch", *both.arguments)
    assert (ended.code, ended.err) == (130, "")
    assert ended.out.startswith("2026-03-01T12:00:00Z  bundle/app@dgx-a  data.level")
    lines = gitops("drift", "--watch", *both.arguments, "-f", "json").out.splitlines()
    assert [json.loads(text)["path"] for text in lines] == ["data.level"]
    assert gitops("drift", "--watch", "--by", "manager", *both.arguments).code == 2


def test_only_open_leaves_out_what_is_over_and_what_was_added() -> None:
    whole = DriftView((UnitDrift(APP, (OPEN,), 4, ADDED), UnitDrift(CHAT, (OVER,))))
    shown = narrowed(whole, Filter(only_open=True))
    assert [(d.unit, d.left_out, d.added) for d in shown.drifts] == [(APP, 0, {})]
