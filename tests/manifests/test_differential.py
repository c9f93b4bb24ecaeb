"""Thousands of generated files against kubectl: the same JSON, or refused; never another value.

And whatever is refused here though kubectl accepts it is refused for one of the reasons in REASONS.
"""

from collections import Counter
from random import Random
from typing import NamedTuple

import pytest
from yaml_kit import kubectl
from yaml_kit.generating import Author

from gitops.manifests import codes
from gitops.manifests.canonical import canonical_json
from gitops.manifests.checking import check_object
from gitops.manifests.reading import ReadResult, read_documents
from gitops.model.findings import Severity

pytestmark = pytest.mark.skipif(kubectl.PROGRAM is None, reason="NOT CHECKED against kubectl: there is no kubectl")

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
JSON = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "v": "%s"}'


class Reason(NamedTuple):
    """Why an error is one although kubectl reads the file: its code, words of its message, and an example."""

    code: str
    words: str
    why: str
    example: str


REASONS = [
    Reason(codes.STRAY_MARK, "", "Y14: a byte order mark inside a file", f"{HEAD}---\n\ufeff{HEAD}"),
    Reason(codes.BARE_RETURN, "", "Y15: the bare-carriage-return variant", f"{HEAD}a: 1\rb: 2\n"),
    Reason(codes.DUPLICATE_KEY, "", "Y08: kubectl takes the last of two equal keys", f"{HEAD}a: 1\na: 1\n"),
    Reason(codes.KEY_NOT_TEXT, "", "Y02: kubectl makes text of numbers and booleans", f"{HEAD}on: 1\n"),
    Reason(codes.NOT_FINITE, "as a key", "Y02: as a value kubectl refuses it too", f"{HEAD}.inf: a\n"),
    Reason(codes.TAG, "", "Y18: kubectl drops unknown tags and decodes !!binary", f"{HEAD}a: !x 1\n"),
    Reason(codes.NUMBER_TOO_LARGE, "", "Y07: kubectl makes floats of large integers", f"{HEAD}a: {10**20}\n"),
    Reason(codes.LEADING_ZERO, "", "Y03: kubectl reads `08` as 8", f"{HEAD}a: 08\n"),
    Reason(codes.MERGE_ORDER, "", "Y11: kubectl lets a late merge win", f"{HEAD}a: &a {{b: 1}}\nc: {{b: 2, <<: *a}}\n"),
    Reason(codes.KUBECTL_REFUSES, "stands alone", "for YAML no separator, kubectl cuts there", f"{HEAD}---#\n{HEAD}"),
    Reason(codes.KUBECTL_REFUSES, "no line break", "kubectl drops what follows", f"{HEAD}a: b\u2028---\n{HEAD}"),
    Reason(codes.SYNTAX, "expected <document start>", "kubectl drops what follows `...`", f"{HEAD}...\n{HEAD}"),
    Reason(codes.SYNTAX, "control characters", "kubectl drops what follows `...`", f"{HEAD}...\n#{'c' * 9_999}\n\x01"),
    Reason(codes.SYNTAX, "unknown directive", "kubectl drops what follows `...`", f"{HEAD}...\n%X\n---\n{HEAD}"),
    Reason(codes.SYNTAX, "while scanning a tag", "Y18: kubectl drops unknown tags", f"{HEAD}a: !x,z 1\n"),
    Reason(codes.SYNTAX, "unknown escape", "`\\'` is an escape for go-yaml alone", f'{HEAD}a: "\\\'"\n'),
    Reason(codes.SYNTAX, "invalid Unicode", "kubectl puts U+FFFD for half a surrogate pair of JSON", JSON % r"\ud800"),
    Reason(codes.SYNTAX, "unexpected ':'", "`{b:,}` is the key `b:` for kubectl", f"{HEAD}a: {{b:,c}}\n"),
]


@pytest.mark.parametrize(
    ("seed", "odd", "count", "at_least"),
    [
        pytest.param(1, 0.0, 3_000, 2_800, id="plain"),
        pytest.param(2, 0.01, 3_000, 1_800, id="odd-here-and-there"),
        pytest.param(3, 0.03, 3_000, 1_200, id="odd"),
        pytest.param(4, 0.1, 2_000, 300, id="mostly-broken"),
        pytest.param(5, 0.3, 1_000, 50, id="broken"),
    ],
)
def test_files_are_read_as_by_kubectl_or_refused(seed, odd, count, at_least):
    author = Author(Random(seed), odd)
    files = {f"f{n}": author.file(f"f{n}").encode() for n in range(count)}
    answers = kubectl.read_many(files)
    seen = Counter()
    for name, data in files.items():
        result = read_documents(data, file=name)
        errors = [f for f in result.findings if f.severity is Severity.ERROR]
        assert result.complete == (not errors)
        assert all(1 <= f.origin.line <= len(data.decode().split("\n")) for f in result.findings), (data, result)
        seen[_judge(data, result, answers[name])] += 1
    assert seen["the same"] >= at_least, seen
    assert seen["%YAML"] > 0 or not odd


def _judge(data: bytes, result: ReadResult, answer: kubectl.Answer) -> str:
    """What became of a file on both sides, when that is as it should be."""
    refused = [f"{f.code} {f.message}" for f in result.findings if f.severity is Severity.ERROR]
    if not result.complete:
        if answer.refused or not answer.objects:
            return "refused by both"
        known = [r.why for r in REASONS if any(r.code in text and r.words in text for text in refused)]
        assert known, f"refused though kubectl reads it: {refused}\n{data.decode()}"
        theirs = kubectl.read_one(data).objects if result.documents else []
        assert set(_sorted([kubectl.comparable(d.body) for d in result.documents])) <= set(_sorted(theirs))
        return known[0]
    if any(check_object(document) for document in result.documents):
        return "no object"
    if any(f.code == codes.DIRECTIVE for f in result.findings):
        return "%YAML"  # Y24: read and warned about, where kubectl wants `---` first
    ours = _sorted([kubectl.comparable(d.body) for d in result.documents])
    if answer.refused or ours != _sorted(answer.objects):
        answer = kubectl.read_one(data)  # mutations change names
    assert not answer.refused, f"read though kubectl refuses it: {answer.refused}\n{data.decode()}"
    assert ours == _sorted(answer.objects), data.decode()
    return "the same"


def _sorted(objects: list) -> list[bytes]:
    return sorted(map(canonical_json, objects))


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: f"{reason.code}-{reason.words}")
def test_no_reason_is_out_of_date(reason):
    """kubectl reads the example, and it is refused here in these words."""
    data = reason.example.encode()
    answer, result = kubectl.read_one(data), read_documents(data, file="a")
    assert answer.refused == ""
    assert answer.objects
    assert [f.code for f in result.findings] == [reason.code]
    assert reason.words in result.findings[0].message
