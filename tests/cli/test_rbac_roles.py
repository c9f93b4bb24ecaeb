"""`gitops rbac roles`: the text for a small repository, to the letter."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from gitops.cli.application import application
from gitops.cli.rbac_roles import manifests
from gitops.model.identity import ReconcilerName
from gitops.plan.least_rights import LeastRights, Right
from gitops.policy.rbac.roles import Account

RULES = """\
rules:
  # declared
  - apiGroups: ["apps"]
    resources: [deployments, statefulsets]
    verbs: [get, list]
  # accounts
  - apiGroups: ["apps"]
    resources: [replicasets]
    resourceNames: [a, b]
    verbs: [list]
"""


def test_rules_with_the_same_verbs_and_names_are_one() -> None:
    rights = LeastRights(
        everywhere=(
            Right("declared", "apps", "deployments", ("get", "list")),
            Right("declared", "apps", "statefulsets", ("get", "list")),
            Right("accounts", "apps", "replicasets", ("list",), ("a", "b")),
        )
    )
    account = Account("gitops-system", "gitops")
    text = manifests(rights, account, cluster="one", reconciler=ReconcilerName("demo"), preflight_labels={})
    assert RULES in text
    assert "escalate" not in text
    assert "ClusterRoleBinding" in text


def test_a_cluster_or_an_account_that_cannot_be_is_a_mistake() -> None:
    folder = Path(__file__).parents[2] / "repo-template"
    result = CliRunner().invoke(application, ["rbac", "roles", "nowhere", str(folder)])
    assert result.exit_code == 2
    assert "no cluster nowhere" in result.output
    for account in ("gitops", "a/b/c", "/gitops", "A/b"):
        result = CliRunner().invoke(application, ["rbac", "roles", "dgx-a", str(folder), "--service-account", account])
        assert (result.exit_code, result.output) == (
            2,
            f"gitops: --service-account {account}: write NAMESPACE/NAME, as in gitops-system/gitops\n",
        )
    result = CliRunner().invoke(application, ["rbac", "roles", "dgx-a", str(folder)])
    assert result.exit_code == 0
    assert '"*"' not in result.output
