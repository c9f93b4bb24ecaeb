"""Rules as the API server reads them, and what of them has no bounds."""

from __future__ import annotations

import pytest

from gitops.policy.rbac.rules import Rule, escalating_verbs, read_rule, wildcards


def rule(**parts):
    names = {"groups": "apiGroups", "names": "resourceNames", "urls": "nonResourceURLs"}
    read, problem = read_rule({names.get(key, key): value for key, value in parts.items()})
    assert problem == ""
    return read


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"verbs": ["*"], "groups": [""], "resources": ["pods"]}, ["`*` in verbs"]),
        ({"verbs": ["get"], "groups": ["*"], "resources": ["pods"]}, ["`*` in apiGroups"]),
        ({"verbs": ["get"], "groups": [""], "resources": ["*"]}, ["`*` in resources"]),
        ({"verbs": ["get"], "groups": [""], "resources": ["*/scale"]}, ["`*/scale` in resources"]),
        ({"verbs": ["get"], "groups": [""], "resources": ["*/*"]}, ["`*/*` in resources"]),
        ({"verbs": ["get"], "urls": ["*"]}, ["`*` in nonResourceURLs"]),
        ({"verbs": ["get"], "urls": ["/*"]}, ["`/*` in nonResourceURLs"]),
        ({"verbs": ["get"], "urls": ["/metrics", "/apis/*"]}, []),
        ({"verbs": ["get"], "groups": [""], "resources": ["pods/*"]}, []),
        ({"verbs": ["get*"], "groups": ["*.example.com"], "resources": ["p*"]}, []),
        ({"verbs": ["get"], "groups": [""], "resources": ["pods"], "names": ["*"]}, []),
        ({}, []),
    ],
)
def test_wildcards(parts, words):
    assert list(wildcards(rule(**parts))) == words


@pytest.mark.parametrize(
    ("verbs", "found"),
    [
        (["get", "bind"], ["bind"]),
        (["impersonate", "escalate"], ["escalate", "impersonate"]),
        (
            ["impersonate:user-info", "impersonate-on:user-info:list"],
            ["impersonate-on:user-info:list", "impersonate:user-info"],
        ),
        (["binding", "Bind", "use"], []),
    ],
)
def test_escalating_verbs(verbs, found):
    assert escalating_verbs(Rule(verbs=tuple(verbs))) == found


@pytest.mark.parametrize(
    ("parts", "call", "allowed"),
    [
        ({"resources": ["pods"]}, ("get", "", "pods"), True),
        ({"resources": ["pods"]}, ("get", "", "pods/log"), False),
        ({"resources": ["*"]}, ("get", "", "pods/log"), True),
        ({"resources": ["*/log"]}, ("get", "", "pods/log"), True),
        ({"resources": ["*/log"]}, ("get", "", "pods"), False),
        ({"resources": ["pods/*"]}, ("get", "", "pods/log"), False),
        ({"resources": ["*/*"]}, ("get", "", "pods/log"), False),
        ({"resources": ["pods"], "names": ["a"]}, ("get", "", "pods", "a"), True),
        ({"resources": ["pods"], "names": ["a"]}, ("get", "", "pods", "b"), False),
        ({"resources": ["pods"], "names": ["a"]}, ("list", "", "pods"), False),
        ({"resources": ["pods"], "groups": ["apps"]}, ("get", "", "pods"), False),
        ({"resources": ["pods"]}, ("list", "", "pods"), True),
        ({"resources": ["pods"]}, ("watch", "", "pods"), False),
    ],
)
def test_calls(parts, call, allowed):
    assert rule(**{"verbs": ["get", "list"], "groups": [""], **parts}).allows(*call) is allowed


@pytest.mark.parametrize(
    "value",
    [5, None, [], {"verbs": "get"}, {"verbs": ["get", 5]}, {"resources": {}}, {"resourceNames": [None]}],
)
def test_what_is_no_rule_is_said(value):
    assert read_rule(value)[1]


def test_text_in_place_of_a_list_counts_all_the_same():
    read, problem = read_rule({"verbs": "*", "resources": ["pods", 5]})
    assert problem == "has no list of texts under verbs, resources"
    assert list(wildcards(read)) == ["`*` in verbs"]
