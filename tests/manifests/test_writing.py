"""What we write, every reader reads back."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gitops.manifests.canonical import same_json
from gitops.manifests.reading import read_documents
from gitops.manifests.writing import yaml_text

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"), max_size=12)
numbers = st.text("0123456789_.+-eExob:", min_size=1, max_size=8)
values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts | numbers,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | numbers, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(texts | numbers, values, max_size=4))
@example({"a": "1e3", "y": "y", "0o17": "n", "b": ["", "~", "null", ".inf", "08", "=", "<<", "no", "12:30"]})
@example({"a": "line\nline\n", "b": " lead", "c": "trail ", "d": "# x", "e": "- x", "f": "a: b", "g": "{{ x }}"})
@example({"a": "2030-01-02", "b": "1_000", "c": "0x1F", "d": "1e400", "e": "9" * 30})
def test_our_reader_and_pyyaml_read_it_back(value):
    text = yaml_text(value)
    result = read_documents(text.encode(), file="x.yaml")
    assert result.findings == ()
    assert same_json(result.documents[0].body, value)
    assert same_json(yaml.safe_load(text), value)


@pytest.mark.parametrize("text", ["plain", "with space", "x.y/z", "a-b_c", "fn-llama-chat-h100-0", "é"])
def test_what_needs_no_quotes_has_none(text):
    assert yaml_text([text]) == f"- {text}\n"
