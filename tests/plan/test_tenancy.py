"""Tenancy fails closed: a cluster is used only by a repository of exactly its account. And one cluster has one name."""

from __future__ import annotations

import pytest

from gitops.cluster.claims import Claim, ClaimRefused, judged
from gitops.model.identity import ReconcilerName

REPOSITORY = "apiVersion: gitops/v1alpha1\nkind: Repository\nmetadata: {name: test}\n"
NONE = object()


def files(small, repository, cluster):
    """Both clusters with this account, in a repository of that one; NONE leaves it out."""
    spec = "" if repository is NONE else f"spec:\n  ncaId: {repository}\n"
    tenancy = "" if cluster is NONE else f"  tenancy:\n    ncaId: {cluster}\n"
    clusters = {f"clusters/{name}.yaml": small().files[f"clusters/{name}.yaml"] + tenancy for name in "ab"}
    return {"gitops.yaml": REPOSITORY + spec, **clusters}


@pytest.mark.parametrize("account", [NONE, "acct-1", "rsDpEnJT_Iu+c/9=", "org:team@eu.1"])
def test_the_same_account_on_both_sides_is_used(compile_small, small, account):
    result = compile_small(files(small, account, account))
    assert result.findings == ()
    assert len(result.units) == 4


@pytest.mark.parametrize(
    ("repository", "cluster", "code"),
    [
        ("acct-1", "acct-2", "GO4004"),
        ("acct-1", NONE, "GO4004"),
        (NONE, "acct-1", "GO4004"),
        ("acct-1", "ACCT-1", "GO4004"),
        ("acct-1", "acct-10", "GO4004"),
        ("acct-1", "acct_1", "GO4004"),
        ("acct-1", "'*'", "GO2004"),
        ("'*'", "'*'", "GO2004"),
        ("acct-1", "acct-*", "GO2004"),
        ("acct-1", "'acct-1,acct-2'", "GO2004"),
        ("acct-1", "[acct-1, acct-2]", "GO2004"),
        ("acct-1", "[acct-1]", "GO2004"),
        ("acct-1", "' acct-1'", "GO2004"),
        ("acct-1", '"acct-1\\n"', "GO2004"),
        ("acct-1", "''", "GO2004"),
        ("''", "''", "GO2004"),
        ("'  '", "'  '", "GO2004"),
        ("acct-1", "", "GO2004"),
        ("acct-1", "null", "GO2004"),
        ("1", "1", "GO2004"),
        ("acct-1", "acct-１", "GO2004"),
    ],
)
def test_anything_else_is_refused_and_prunes_nothing(compile_small, small, repository, cluster, code):
    result = compile_small(files(small, repository, cluster))
    assert code in {f.code for f in result.errors}
    assert not result.units
    assert not result.complete


def test_an_account_by_null_is_none(compile_small, small):
    """As everywhere in these documents: a field that is null is left out."""
    assert len(compile_small(files(small, "null", NONE)).units) == 4
    assert {f.code for f in compile_small(files(small, "null", "acct-1")).errors} == {"GO4004"}


def test_tenancy_without_an_account_is_no_consent(compile_small, small):
    text = small().files["clusters/a.yaml"] + "  tenancy: {}\n"
    result = compile_small({"clusters/a.yaml": text})
    assert [f.code for f in result.errors] == ["GO2003"]
    assert result.unreadable_clusters == {"a"}


def test_an_account_that_almost_fits_is_told_so(compile_small, small):
    messages = {f.message for f in compile_small(files(small, "acct-1", "Acct-1")).errors}
    assert "cluster a belongs to account Acct-1, the repository to acct-1 (compared to the letter)" in messages


# -- the claim on the cluster itself ----------------------------------------------------------------------------------


def claimed(account):
    data = {"reconciler": "test", "repository": "git.example/x"} | ({} if account is None else {"ncaId": account})
    return {"data": data}


@pytest.mark.parametrize("account", ["", "acct-1"])
def test_a_claim_of_the_same_account_is_ours(account):
    wanted = Claim(ReconcilerName("test"), "git.example/x", account)
    assert judged(claimed(account), wanted, "a") is None


@pytest.mark.parametrize(
    ("held", "ours"), [("acct-2", "acct-1"), ("ACCT-1", "acct-1"), ("*", "acct-1"), ("", "acct-1"), (None, "acct-1"),
                       ("acct-1", ""), (" acct-1", "acct-1"), ("acct-1,acct-2", "acct-1")]
)  # fmt: skip
def test_a_claim_of_another_account_is_refused(held, ours):
    found = judged(claimed(held), Claim(ReconcilerName("test"), "git.example/x", ours), "a")
    assert isinstance(found, ClaimRefused)


# -- credentials ------------------------------------------------------------------------------------------------------


def test_two_clusters_with_one_name_of_credentials_are_both_unusable(compile_small, small):
    text = small().files["clusters/b.yaml"].replace("credentials: b", "credentials: a")
    result = compile_small({"clusters/b.yaml": text}, live=["function/chat/h100-0@a"])
    assert [(str(f.origin), f.code) for f in result.errors] == [
        ("clusters/a.yaml:6", "GO4015"),
        ("clusters/b.yaml:6", "GO4015"),
    ]
    assert result.errors[0].message == "the credentials a are also named by clusters/b.yaml"
    assert result.unreadable_clusters == {"a", "b"}
    assert not result.complete


def test_a_cluster_may_be_renamed_with_its_credentials(compile_small, small):
    text = small().files["clusters/b.yaml"].replace("name: b", "name: c")
    result = compile_small({"clusters/b.yaml": None, "clusters/c.yaml": text})
    assert result.findings == ()


# -- folders that are not read ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "meant"),
    [
        ("policy", "policies"),
        ("polices", "policies"),
        ("operator", "operators"),
        ("Operators", "operators"),
        ("cluster", "clusters"),
        ("function", "functions"),
        ("bundel", ""),
        ("bundle", "bundles"),
        ("task", "tasks"),
        ("TASKS", "tasks"),
        ("tests", ""),
        ("docs", ""),
        (".schemas", ""),
        ("operations", ""),
        ("functional", ""),
        ("x" * 5_000, ""),
    ],
)
def test_a_folder_that_looks_like_one_of_ours_is_told(compile_small, folder, meant):
    result = compile_small({f"{folder}/b.yaml": "a: 1", f"{folder}/c/d.yaml": "b: 1"})
    found = [(f.code, str(f.origin), f.message) for f in result.findings]
    expected = ("GO4016", f"{folder}/b.yaml", f"{folder}/ is not read; did you mean {meant}/?")
    assert found == ([expected] if meant else [])
    assert result.complete


def test_a_folder_without_yaml_is_none_of_our_business(compile_small):
    assert compile_small({"policy/deny.rego": "package main", "operator/main.go": "package main"}).findings == ()
