"""Roles and bindings in a few words."""

from __future__ import annotations

import pytest

from gitops.policy.rbac.gate import judge_accounts
from gitops.policy.rbac.reviewing import shipped_rights
from gitops.policy.rbac.roles import Account, RbacObjects, Source

OPERATOR = Account("ops", "manager")


class Rbac:
    """Makes objects, and judges the account ops/manager by all that were made."""

    def __init__(self):
        self.bodies = []

    def role(self, name, *rules, namespace="", labels=None, **more):
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels or {}}
        self.bodies.append(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": kind,
                "metadata": metadata,
                "rules": [*rules],
                **more,
            }
        )
        return self

    def bind(self, role, *subjects, namespace="", kind="ClusterRole", name=""):
        own = "RoleBinding" if namespace else "ClusterRoleBinding"
        metadata = {"name": name or f"bind-{role}", **({"namespace": namespace} if namespace else {})}
        default = {"kind": "ServiceAccount", "namespace": OPERATOR.namespace, "name": OPERATOR.name}
        self.bodies.append(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": own,
                "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
                "subjects": [*subjects] or [default],
            }
        )
        return self

    @property
    def objects(self):
        return RbacObjects.of(Source(body) for body in self.bodies)

    def judge(self, *accounts, accepted=(), live=False):
        return judge_accounts(accounts or (OPERATOR,), self.objects, shipped_rights(), accepted, live=live)


@pytest.fixture
def rbac():
    return Rbac()
