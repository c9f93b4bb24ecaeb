"""Instance namespaces: total, deterministic, free of collisions also where case is folded."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitops.plan.naming import (
    LIMIT,
    file_name,
    folded,
    instance_namespace,
    is_instance_namespace,
    label_value,
    refused_for_function,
    task_namespace,
)

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
LABEL_VALUE = re.compile(r"[a-z0-9][-a-z0-9.]{0,61}[a-z0-9]?\Z")

functions = st.from_regex(r"[a-z0-9A-Z][a-z0-9A-Z\-_]{0,127}", fullmatch=True)
specs = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
instances = st.tuples(functions, specs, st.integers(0, 10_000))
similar = st.tuples(
    st.text("aA-_", min_size=1, max_size=4).filter(lambda t: t[0] in "aA"),
    st.from_regex(r"a(-a){0,2}", fullmatch=True),
    st.integers(0, 1),
)


@given(instances)
@example(("A" * 128, "a" * 63, 9999))
@example(("_", "a", 0))
def test_every_name_is_a_namespace(instance):
    name = instance_namespace(*instance)
    assert len(name) <= LIMIT
    assert LABEL.match(name)
    assert is_instance_namespace(name)
    assert name == instance_namespace(*instance)


@given(instances, instances)
def test_different_instances_have_different_namespaces(a, b):
    assert (a == b) == (instance_namespace(*a) == instance_namespace(*b))


@given(similar, similar)
@example(("a-a", "a", 0), ("a", "a-a", 0))
@example(("a_a", "a", 0), ("a-a", "a", 0))
@example(("A", "a", 0), ("a", "a", 0))
def test_g15_similar_instances_have_different_namespaces(a, b):
    assert (a == b) == (instance_namespace(*a) == instance_namespace(*b))


def test_r14_long_names_that_differ_at_the_end():
    assert instance_namespace("a" * 70 + "x", "h", 0) != instance_namespace("a" * 70 + "y", "h", 0)


@pytest.mark.parametrize(
    ("instance", "name"),
    [
        (("llama-chat", "h100", 0), "fn-llama-chat-h100-0"),
        (("embed", "a100", 12), "fn-embed-a100-12"),
    ],
)
def test_plain_names_stay_readable(instance, name):
    assert instance_namespace(*instance) == name


@pytest.mark.parametrize("instance", [("Llama", "h100", 0), ("a_b", "h100", 0), ("a", "h-100", 0)])
def test_ambiguous_names_get_a_mark(instance):
    assert re.search(r"-x[0-9a-f]{10}\Z", instance_namespace(*instance))


names = functions | st.text("aA-_.", min_size=1, max_size=4).filter(lambda t: t[0] in "aA")


@given(functions)
@example("A" * 128)
@example("a-_")
def test_every_name_has_a_label_value_a_file_name_and_a_task_namespace(name):
    assert LABEL_VALUE.match(label_value(name))
    assert re.fullmatch(r"[a-z0-9][a-z0-9_+-]{0,99}", file_name(name))
    namespace = task_namespace(name)
    assert LABEL.match(namespace)
    assert len(namespace) <= LIMIT
    assert is_instance_namespace(namespace)


@pytest.mark.parametrize("make", [label_value, file_name, task_namespace])
@given(a=names, b=names)
@example(a="a" * 70 + "x", b="a" * 70 + "y")
@example(a="Llama-A", b="llama-a")
@example(a="a_b", b="a-b")
def test_g15_r14_different_names_differ_everywhere(make, a, b):
    assert (a == b) == (make(a).casefold() == make(b).casefold())


@given(names, instances)
def test_a_task_never_gets_the_namespace_of_a_function(task, instance):
    assert task_namespace(task) != instance_namespace(*instance)


def test_plain_names_are_their_own_label_and_file():
    assert label_value("llama-chat") == file_name("llama-chat") == "llama-chat"
    assert re.fullmatch(r"llama-a\.x[0-9a-f]{10}", label_value("Llama-A"))


@pytest.mark.parametrize("name", ["../../.github/workflows/x", "a/b", "CON", "con", ".git", "a\0b", "x" * 253])
def test_x08_file_names_stay_in_their_folder(name):
    made = file_name(name)
    assert re.fullmatch(r"[a-z0-9][a-z0-9_+-]{0,99}", made)
    assert made not in ("con", "git", ".git")


def test_folded_paths():
    assert folded("App.yaml") == folded("app.yaml")
    assert folded("\u00e9") == folded("e\u0301")
    assert folded("a") != folded("b")


@pytest.mark.parametrize(
    "namespace", ["default", "kube-system", "kube-x", "gitops-system", "gitops-secrets", "fn-chat"]
)
def test_no_function_takes_a_namespace_of_others(namespace):
    assert refused_for_function(namespace)


@pytest.mark.parametrize("namespace", ["chat", "defaults", "kubernetes", "gitops"])
def test_other_namespaces_may_be_taken(namespace):
    assert not refused_for_function(namespace)
