"""Credentials in plain text: known shapes only, and no false alarms on what manifests really hold."""

from __future__ import annotations

import pytest

from gitops.cluster.values import MASK, conceal
from gitops.policy.credentials import credentials_in, looks_like
from gitops.readiness.texts import one_line

BAD = {
    "a private key": "-----BEGIN EC " + "PRIVATE KEY-----\nMHcCAQ==",
    "a GitHub token": "gho_" + "A1b2" * 10,
    "a GitLab token": "glpat-" + "x" * 20,
    "an AWS access key id": "AKIA" + "Z" * 16,
    "a Slack token": "xoxb-" + "1" * 20,
    "an NGC API key": "nvapi-" + "k" * 60,
    "a Hugging Face token": "hf_" + "h" * 34,
    "a Google API key": "AIza" + "g" * 35,
    "an npm token": "npm_" + "n" * 36,
    "a Docker Hub token": "dckr_pat_" + "d" * 27,
    "an OpenAI or Anthropic key": "sk-ant-" + "s" * 40,
    "a signed token (JWT)": "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4eXoifQ." + "t" * 40,
    "a URL with a password": "postgres://app:hunter22@db.example/app",
}

GOOD = [
    "nvcr.io/nim/meta/llama-3.2-1b-instruct:1.12.0",
    "https://user@git.example/x.git",
    "http://llm.example:8000/v1",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "ghp_short",
    "sk-learn",
    "hf://meta-llama/Llama-3.2-1B-Instruct",
    "postgres://app:$(DB_PASSWORD)@db.example/app",
    "postgres://app:${PASSWORD}@db.example/app",
    "sha256:" + "0123456789abcdef" * 4,
    "AKIA-like but short",
    "eyJhbGciOiJSUzI1NiJ9",
]


@pytest.mark.parametrize(("what", "text"), BAD.items(), ids=list(BAD))
def test_known_shapes_are_found(what, text):
    assert looks_like(text) == what
    assert looks_like(f"export KEY={text}\n") == what


@pytest.mark.parametrize("text", BAD.values(), ids=list(BAD))
def test_what_is_refused_in_git_is_shown_neither_in_messages_nor_as_drift(text):
    secret = text.partition("\n")[2] or text.partition("://")[2].partition("@")[0] or text
    assert secret not in one_line(f"denied: value {text} is not allowed")
    live = {"data": {"config.yaml": f"key: {text}"}, "args": ["--port=1", f"--key={text}"]}
    shown, hidden = conceal(live, MASK, path=("spec",), kind="Widget")
    assert (shown, hidden) == ({"data": {"config.yaml": MASK}, "args": ["--port=1", MASK]}, True)


@pytest.mark.parametrize("text", GOOD)
def test_ordinary_values_pass(text):
    assert looks_like(text) is None
    assert conceal(text, MASK, path=("spec", "x"), kind="Widget") == (text, False)


def test_paths_lead_to_the_value():
    body = {"a": [{"b": BAD["a GitHub token"]}, 1, None], "c": {"d": "plain text"}}
    assert list(credentials_in(body)) == [(("a", 0, "b"), "a GitHub token")]


@pytest.mark.parametrize("what", ["a signed token (JWT)", "a URL with a password"])
@pytest.mark.parametrize("before", ["token-", "a.b.c-", "=", "eyJ-eyJ-", "1."])
def test_what_stands_before_a_credential_does_not_hide_it(what, before):
    assert looks_like(before + BAD[what]) == what


@pytest.mark.parametrize("part", ["a.", "eyJabcdefghij-", "-----BEGIN ", "a://b:ccc", "a://"])
def test_a_text_of_many_beginnings_is_read_once(part):
    """Read anew from each of them, the first two take minutes."""
    assert looks_like(part * 100_000) is None
