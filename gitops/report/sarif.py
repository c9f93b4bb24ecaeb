"""Findings as SARIF 2.1.0 (OASIS), in the subset that GitHub's code scanning documents.

The same findings give the same bytes: no times, no absolute paths, no ids made up (Appendix F of the standard). There
are no snippets, so that no line with a secret can be among them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from gitops.manifests.lines import dotted
from gitops.model.catalogue import CATALOGUE, MESSAGE_LIMIT
from gitops.model.findings import Finding, Severity
from gitops.readiness.texts import one_line, printable
from gitops.report.findings import worst_first

RESULT_LIMIT = 25_000
"""GitHub refuses a run with more results."""

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_LINES = re.compile(r"(?<=\bline )\d+|(?<=:)\d+\b")
"""Line numbers that a message names: `on line 3`, `at a/b.yaml:3`."""


def render_sarif(findings: Sequence[Finding], *, version: str | None = None) -> str:
    """One run as JSON text, in ASCII. `findings` come by file and line; results are worst first. `version` is that of
    this product."""
    results = worst_first(findings)[:RESULT_LIMIT]
    rules = sorted({finding.code for finding in results})
    driver = {"name": "gitops-reconciler", "version": version, "rules": [_rule(code) for code in rules]}
    seen: Counter[str] = Counter()
    run: dict[str, Any] = {
        "tool": {"driver": {key: value for key, value in driver.items() if value is not None}},
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the manifests repository."}}},
        "results": [_result(finding, rules.index(finding.code), seen) for finding in results],
    }
    if len(findings) > len(results):
        text = f"{len(findings) - len(results)} more findings are left out, the least severe ones."
        notification = {"level": "warning", "message": {"text": text}}
        run["invocations"] = [{"executionSuccessful": True, "toolExecutionNotifications": [notification]}]
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str) -> dict[str, Any]:
    entry = CATALOGUE[code]
    return {
        "id": code,
        "shortDescription": {"text": f"{entry.heading}."},
        "fullDescription": {"text": f"{entry.heading}. For example: {entry.example}"},
        "help": {"text": entry.hint},
        "defaultConfiguration": {"level": _LEVELS[entry.severity]},
    }


def _result(finding: Finding, rule: int, seen: Counter[str]) -> dict[str, Any]:
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": _message(finding.message)},
        "locations": [_location(finding)],
        "partialFingerprints": _fingerprints(finding, seen),
    }


def _message(text: str) -> str:
    """A plain text message (§3.11.3). What would be an embedded link (§3.11.6) is parted by a zero-width space, what
    would be a placeholder (§3.11.5) has its braces doubled. Other braces stay single: no `arguments` are given, and
    viewers show doubled ones as they are."""
    text = printable(one_line(text, MESSAGE_LIMIT)).replace("](", "]\u200b(")
    return re.sub(r"\{(\d+)\}", r"{{\1}}", text)


def _location(finding: Finding) -> dict[str, Any]:
    """Path segments are percent-encoded (RFC 3986), `:` too: a relative reference may not begin with `a:`. A file
    outside the repository, such as one with schemas, has an absolute URI and then no base (§3.4.4)."""
    file = quote(finding.origin.file)
    artifact = {"uri": f"file://{file}"} if file.startswith("/") else {"uri": file, "uriBaseId": _ROOT}
    physical: dict[str, Any] = {"artifactLocation": artifact}
    if finding.origin.line > 0:
        physical["region"] = {"startLine": finding.origin.line}
    location: dict[str, Any] = {"physicalLocation": physical}
    named = [(thing.name, str(thing)) for thing in (finding.object, finding.workload) if thing is not None]
    if named:
        location["logicalLocations"] = [
            {"name": printable(name), "fullyQualifiedName": printable(full), "kind": "resource"} for name, full in named
        ]
    return location


def _fingerprints(finding: Finding, seen: Counter[str]) -> dict[str, str]:
    """What the finding is about, without its line, and a number where several are about the same (§3.27.17).

    GitHub reads `primaryLocationLineHash` only, and its upload action makes that from the source line, or complains
    about another value. Of a result without a line it makes none: then ours stands in.
    """
    message = _LINES.sub("", _message(finding.message))
    parts = (finding.code, finding.origin.file, str(finding.object or ""), dotted(finding.path), message)
    value = hashlib.blake2b("\0".join(parts).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
    seen[value] += 1
    value = f"{value}:{seen[value]}"
    prints = {"findingHash/v1": value}
    if not finding.origin.line:
        prints["primaryLocationLineHash"] = value
    return prints
