"""Our own documents: errors in words for people, with the author's text, and never with a secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gitops.manifests.reading import read_documents
from gitops.model.document_kinds import KINDS
from gitops.model.functions import Function
from gitops.plan import codes
from gitops.plan.documents import _PATTERN_WORDS, typed

HEAD = "apiVersion: gitops/v1alpha1\nkind: Function\nmetadata: {name: chat}\nspec:\n"
SOURCES = "  operatorTypes: [dynamo]\n  manifests: [manifests/]\n"


def patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        for part in schema.values():
            yield from patterns(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from patterns(part)


def test_every_pattern_has_words():
    used = {pattern for model in KINDS.values() for pattern in patterns(model.model_json_schema())}
    assert used == set(_PATTERN_WORDS)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("  version: 1.20\n", "spec.version must be text, not the number 1.2 (written `1.20`)"),
        ("  version: 0644\n", "spec.version must be text, not the number 420 (written `0644`)"),
        ("  version: no\n", "spec.version must be text, not the boolean false (written `no`)"),
        ("  version: 3\n", "spec.version must be text, not the number 3"),
        ("  version:\n", "spec.version must be text, not empty"),
        ("  version: [a]\n", "spec.version must be text, not a list"),
        ("  version: '1'\n  tags: [a b]\n", "spec.tags[0] must be letters, digits and `- _ : =`"),
        ("  version: '1'\n  functionType: llm\n", "spec.functionType must be 'DEFAULT', 'STREAMING' or 'LLM'"),
        (
            "  version: '1'\n  health: {protocol: HTTP, uri: /, port: 1, timeout: 5s, expectedStatusCode: 200}\n",
            "spec.health.timeout must be a duration such as PT90S, PT15M, PT8H or P1DT12H",
        ),
        (
            "  version: '1'\n  rateLimit: {rateLimit: 1-X}\n",
            "spec.rateLimit.rateLimit: a rate is a number, a hyphen and one of S, M, H, D, such as 100-S,5000-H",
        ),
    ],
)
def test_messages(spec, message):
    (document,) = read_documents((HEAD + spec + SOURCES).encode(), file="f.yaml").documents
    parsed, findings = typed(document, Function)
    assert parsed is None
    assert [f.message for f in findings if f.severity == "error"] == [message]
    assert findings[0].origin.line >= 5


@pytest.mark.parametrize(("field", "instead"), [("healthUri", "use health"), ("utilsContainerImage", "an operator")])
def test_a_field_of_nvcf_that_is_refused_says_what_to_write_instead(field, instead):
    text = f"{HEAD}  version: '1'\n  {field}: /x\n{SOURCES}"
    (document,) = read_documents(text.encode(), file="f.yaml").documents
    (found,) = typed(document, Function)[1]
    assert (found.code, found.origin.line) == (codes.NOT_SUPPORTED, 6)
    assert instead in found.hint


@pytest.mark.parametrize("field", ["version", "tags", "description", "containerImage", "helmChart", "namespace"])
def test_x01_a_value_is_never_quoted(field):
    secret = "hunter2 hunter2"
    text = HEAD + f"  version: '1'\n  {field}: [['{secret}']]\n" + SOURCES
    text = text.replace("  version: '1'\n", "", 1) if field == "version" else text
    (document,) = read_documents(text.encode(), file="f.yaml").documents
    parsed, findings = typed(document, Function)
    assert parsed is None
    assert findings
    assert all(secret not in f"{f.message} {f.hint} {f.path}" for f in findings)
