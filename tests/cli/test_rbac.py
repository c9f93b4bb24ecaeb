"""`gitops rbac check`: files, standard input, exit codes, and what a name may do to a terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: manager
rules:
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
"""
WIDE = ROLE.replace("[get]", '["*"]')
BINDING = """\
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager}
subjects: [{kind: ServiceAccount, namespace: ops, name: manager}]
"""
FREE = "---\n" + WIDE.replace("name: manager", "name: free")


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(text: str, name: str = "role.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_roles_that_pass(gitops: Any, file: Any) -> None:
    path = file(ROLE)
    result = gitops("rbac", "check", path, "--operator", "nim")
    assert (result.code, result.err) == (0, "")
    assert "no bindings: each is judged as if it were bound" in result.out
    assert "secrets-read (accepted): reads the credentials" in result.out
    assert "rbac-good-practices/#listing-secrets" in result.out
    assert f"{path}:6: ClusterRole.rbac.authorization.k8s.io manager rule 1: get secrets everywhere" in result.out
    assert result.out.endswith("0 violations, 1 high-risk right, 0 of them to accept\n")


def test_without_an_operator_type_nothing_is_accepted(gitops: Any, file: Any) -> None:
    result = gitops("rbac", "check", file(ROLE))
    assert result.code == 0
    assert "secrets-read (to accept)" in result.out


def test_a_violation_names_its_line_and_shows_it(gitops: Any, file: Any) -> None:
    path = file(WIDE + BINDING)
    result = gitops("rbac", "check", path)
    assert result.code == 1
    assert "Roles in the files (ops/manager)" in result.out
    lines = result.out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith(f"{path}:6: error GO4411: "))
    assert lines[at].endswith("ClusterRole.rbac.authorization.k8s.io manager rule 1, everywhere: `*` in verbs")
    assert lines[at + 1] == '    6 | - apiGroups: [""]'


def test_several_files_are_judged_together(gitops: Any, file: Any) -> None:
    role, binding = file(WIDE, "role.yaml"), file(BINDING, "binding.yaml")
    assert gitops("rbac", "check", role, binding).code == 1
    alone = gitops("rbac", "check", binding)
    assert alone.code == 1
    assert "error GO4414" in alone.out


def test_a_role_that_nobody_has_is_named(gitops: Any, file: Any) -> None:
    result = gitops("rbac", "check", file(ROLE + BINDING + FREE))
    assert result.code == 0
    assert "ClusterRole.rbac.authorization.k8s.io free is bound to no ServiceAccount in these files" in result.out


def test_standard_input(gitops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO((WIDE + BINDING).encode())))
    result = gitops("rbac", "check", "-")
    assert result.code == 1
    assert "-:6: error GO4411" in result.out


def test_a_template_is_never_ok(gitops: Any, file: Any) -> None:
    good = file(ROLE, "good.yaml")
    bad = file("metadata:\n  name: {{ include `x` . }}-manager\n", "bad.yaml")
    for format in ("text", "json"):
        result = gitops("rbac", "check", good, bad, "--format", format)
        assert result.code == 2
        assert "helm template RELEASE CHART | gitops rbac check -" in result.out
    assert json.loads(result.out)["ok"] is False
    assert f"{bad}:2: error GO4416" in gitops("rbac", "check", good, bad).out


def test_a_violation_beside_an_unreadable_file_is_still_shown(gitops: Any, file: Any) -> None:
    result = gitops("rbac", "check", file(WIDE), file("{{", "bad.yaml"))
    assert result.code == 2
    assert "GO4411" in result.out
    assert result.out.endswith("Not everything could be read, so nothing passes.\n")


def test_json_has_stable_keys(gitops: Any, file: Any) -> None:
    path = file(ROLE + BINDING)
    body = json.loads(gitops("rbac", "check", path, "-f", "json", "--operator", "dynamo").out)
    assert (body["ok"], body["readable"], body["cluster"], body["findings"]) == (True, True, None, [])
    (part,) = body["judged"]
    assert (part["operator"], part["serviceAccounts"], part["asIfBound"]) == ("dynamo", ["ops/manager"], False)
    assert (part["violations"], part["notes"]) == ([], [])
    (review,) = part["review"]
    assert {key: review[key] for key in ("right", "accepted", "rule", "file", "line", "verbs", "namespaces")} == {
        "right": "secrets-read",
        "accepted": True,
        "rule": 1,
        "file": str(path),
        "line": 6,
        "verbs": ["get"],
        "namespaces": None,
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name files to check, or a cluster with --cluster"),
        (["role.yaml", "--cluster", "a"], "name files to check, or a cluster with --cluster"),
        (["/nowhere.yaml"], "/nowhere.yaml: cannot be read: No such file or directory"),
        (["/"], "/: cannot be read: Is a directory"),
        (["/dev/null"], "there is no role in these files"),
        (["/dev/null", "--operator", "x"], "there is no operator type x; choose one of dynamo, "),
        (["--cluster", "nope"], "there are no credentials named 'nope'"),
        (["--cluster", "../nope"], "is not a valid credentials name"),
        (["--cluster", "a\x1b[31m"], "is not a valid credentials name"),
    ],
)
def test_wrong_use_is_one_line_and_code_2(gitops: Any, tmp_path: Path, arguments: list[str], words: str) -> None:
    result = gitops("rbac", "check", *arguments, *(["--credentials-dir", tmp_path] if "--cluster" in arguments else []))
    assert result.code == 2
    assert words in result.err
    assert result.out == ""
    assert "\x1b" not in result.err


def test_names_cannot_command_a_terminal(gitops: Any, file: Any) -> None:
    name = '"m\\e[31m\\n::error::forged"'
    text = (WIDE + BINDING + FREE).replace("name: manager", f"name: {name}").replace("[secrets]", '["a\\e[2J"]')
    text += BINDING.replace("name: manager", f"name: {name}").replace("kind: ClusterRoleBinding", "kind: RoleBinding")
    result = gitops("rbac", "check", file(text))
    assert result.code == 1
    assert "\x1b" not in result.out + result.err
    assert not any(line.startswith("::") for line in result.out.splitlines())


SUBJECT = "subjects: [{kind: ServiceAccount, namespace: platform, name: x}]\n"
ADMIN = "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n"
OTHER = ADMIN.replace("cluster-admin", "x")
HEAD = "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata: {name: grab%s}\n"
PLACE = ", namespace: platform"
TOKEN = "apiVersion: v1\nkind: Secret\nmetadata: {name: t, namespace: platform}\n"
TOKEN += "type: kubernetes.io/service-account-token\n"


def role(kind: str, verb: str, resource: str) -> str:
    place = PLACE if kind == "Role" else ""
    return HEAD % (kind, place) + f"rules: [{{apiGroups: [''], resources: [{resource}], verbs: ['{verb}']}}]\n"


VALIDATED = [
    (HEAD % ("ClusterRoleBinding", "") + ADMIN + SUBJECT, 1, "GO4402"),
    (role("Role", "*", "pods"), 0, "GO4401"),
    (role("Role", "escalate", "roles"), 0, "GO4401"),
    (role("ClusterRole", "bind", "clusterroles"), 0, "GO4401"),
    (role("ClusterRole", "impersonate", "users"), 0, "GO4401"),
    (HEAD % ("RoleBinding", ", namespace: kube-system") + OTHER + SUBJECT, 0, "GO4405"),
    (HEAD % ("ClusterRoleBinding", "") + OTHER + "subjects: [{kind: Group, name: system:masters}]\n", 1, "GO4403"),
    (TOKEN, 1, "GO4203"),
]


@pytest.mark.parametrize(("text", "exit_code", "code"), VALIDATED)
def test_x05_escalation_by_a_pull_request_is_flagged(
    gitops: Any, template: Path, text: str, exit_code: int, code: str
) -> None:
    (template / "bundles/platform-base/manifests/grab.yaml").write_text(text)
    result = gitops("validate", template)
    assert result.code == exit_code
    lines = [line for line in result.out.splitlines() if "platform-base/manifests/grab.yaml:" in line]
    assert len(lines) == 1
    assert f"{'error' if exit_code else 'warning'} {code}: " in lines[0]


def test_x05_what_operators_usually_need_is_not_flagged(gitops: Any, template: Path) -> None:
    text = HEAD % ("Role", PLACE) + "rules: [{apiGroups: [''], resources: [configmaps], verbs: [get, create]}]\n---\n"
    text += HEAD % ("RoleBinding", PLACE) + ADMIN.replace("ClusterRole, name: cluster-admin", "Role, name: grab")
    (template / "bundles/platform-base/manifests/grab.yaml").write_text(text + SUBJECT)
    result = gitops("validate", template)
    assert result.code == 0
    assert "GO44" not in result.out
