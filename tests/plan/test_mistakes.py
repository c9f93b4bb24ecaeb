"""Mistakes that people make, which once crashed, deleted what runs, or were answered with something untrue."""

from __future__ import annotations

import json

import pytest

from gitops.cli import terminal
from gitops.report.findings import finding_json

FUNCTION = "functions/chat/function.yaml"
DEPLOYMENT = "functions/chat/deployment.yaml"
SETTINGS = "functions/chat/manifests/settings.yaml"
OVERLAY = "functions/chat/overlays/h100.yaml"
POLICY = "policies/operators/nim.yaml"
TOKEN = "ghp_" + "a" * 40


def said(result):
    return [(f.code, str(f.origin), f.message) for f in result.findings]


@pytest.mark.parametrize("entry", ["null", "5", "[]", "true"])
@pytest.mark.parametrize("at", ["patches", "clusterPatches", "manifestMergePatches", "jsonPatches"])
def test_an_entry_of_a_patch_list_that_is_no_patch(compile_small, small, at, entry):
    text = small().files[DEPLOYMENT]
    if at == "patches":
        text += f"  patches: [{entry}]\n"
    elif at == "clusterPatches":
        text += f"  clusterPatches: {{a: [{entry}]}}\n"
    else:
        text = text.replace("      manifestMergePatches:\n        - overlays/h100.yaml\n", f"      {at}: [{entry}]\n")
    (found,) = [f for f in compile_small({DEPLOYMENT: text}).findings if f.code == "GO2004"]
    assert "must be a map, not " in found.message
    assert found.message.split(" must be ")[0].endswith("[0]")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [("{verbs: 5, resources: [1, {}], apiGroups: {}}", []), ('{verbs: [{}, bind], resources: "*"}', ["GO4401"])],
)
def test_rules_of_a_role_that_are_no_lists(compile_small, rules, expected):
    role = f"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: r}}\nrules: [{rules}]\n"
    assert [f.code for f in compile_small({"bundles/base/objects.yaml": role}).findings] == expected


@pytest.mark.parametrize("name", ["deployment.yml", "Deployment.yaml", "deployment.json"])
def test_r01_a_renamed_deployment_holds_the_function(compile_small, small, name):
    files = small().files
    result = compile_small({DEPLOYMENT: None, f"functions/chat/{name}": files[DEPLOYMENT], OVERLAY: None})
    assert ("GO2108", f"functions/chat/{name}", f"{name} is not read: the name is deployment.yaml") in said(result)
    assert "GO2106" not in {f.code for f in result.findings}
    assert {str(w) for w in result.held} == {"function/chat"}


@pytest.mark.parametrize("content", ["", "\n", "  \r\n\t", "\ufeff"])
def test_a_blank_manifest_or_policy_is_half_of_a_save(compile_small, content):
    result = compile_small({SETTINGS: content, OVERLAY: "# none\n"})
    assert ("GO2112", SETTINGS, "settings.yaml is empty") in said(result)
    result = compile_small({POLICY: content})
    assert said(result) == [("GO2112", POLICY, "nim.yaml is empty")]
    assert {str(w) for w in result.held} == {"function/chat", "bundle/base"}


def test_a_manifest_or_policy_of_comments_is_meant(compile_small, small):
    result = compile_small({POLICY: "# none\n", "functions/chat/manifests/more.yaml": "# later\n"})
    assert result.findings == ()


def test_a_note_is_no_yaml_file(compile_small):
    """A policy is not passed over because its name begins like a note's."""
    result = compile_small({"policies/README-nim.yaml": "kind: Bundle\n", "policies/README": "notes"})
    assert [(f.code, f.origin.file) for f in result.findings] == [("GO2005", "policies/README-nim.yaml")]


def test_without_a_base_no_patch_is_said_to_miss_its_target(compile_small, small):
    text = small().files[FUNCTION].replace("manifests/", "manifest/")
    codes = {f.code for f in compile_small({FUNCTION: text}).findings}
    assert codes == {"GO2104", "GO2106"}


def test_a_pattern_is_no_path(compile_small, small):
    text = small().files[FUNCTION].replace("manifests/", "manifests/*.yaml")
    messages = [f.message for f in compile_small({FUNCTION: text}).findings if f.code == "GO2105"]
    assert messages == [
        "not a path inside functions/chat: it is a pattern; a folder names every file below it",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("minInstances: 2", 'minInstances: "2"', "must be a whole number, not text", "Write the value without quotes."),
        ("gpu: H100", "gpu: 100", "must be text, not the number 100", "Values are read as kubectl reads them"),
        ("gpu: H100", "gpu: [H100]", "must be text, not a list", "docs/documents.md lists every field"),
        (
            "gpu: H100",
            "gpu: H100\n      name: x",
            "gpuSpecifications[0].name: it belongs elsewhere",
            "",
        ),
        ("minInstances", "minInstance", "did you mean minInstances?", ""),
        ("gpu: H100", f"gpu: {TOKEN}", "looks like a GitHub token", "These documents hold names only."),
    ],
)
def test_message_and_hint(compile_small, small, old, new, message, hint):
    (found,) = compile_small({DEPLOYMENT: small().files[DEPLOYMENT].replace(old, new)}).findings
    assert message in found.message
    assert hint in found.hint


@pytest.mark.parametrize(
    "wrong", ["      field{}: 1\n", "    - {{id: h100, gpu: H100}} # {}\n"], ids=["fields", "rules"]
)
def test_a_document_full_of_errors_tells_the_first_hundred(compile_small, small, wrong):
    text = small().files[DEPLOYMENT] + "".join(wrong.format(number) for number in range(3000))
    codes = [f.code for f in compile_small({DEPLOYMENT: text}).findings]
    assert len(codes) == 101
    assert codes.count("GO1009") == 1


@pytest.mark.parametrize("line", ["kind: Task", "apiVersion: gitops/v1"])
def test_a_credential_in_a_document_of_another_kind_is_told_too(compile_small, small, line):
    key = line.partition(":")[0]
    lines = [line if old.startswith(f"{key}:") else old for old in small().files[DEPLOYMENT].splitlines()]
    text = "\n".join(lines).replace("gpu: H100", f"gpu: {TOKEN}")
    assert "GO4202" in {f.code for f in compile_small({DEPLOYMENT: text}).findings}


def test_a_credential_that_a_json_patch_puts_into_a_list_is_told_once(compile_small, small):
    graph = "{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, name: chat}"
    patch = (
        f"      jsonPatches:\n        - target: {graph}\n"
        f"          operations: [{{op: add, path: /spec/components/0/args, value: [{TOKEN}]}}]\n"
    )
    found = compile_small({DEPLOYMENT: small().files[DEPLOYMENT] + patch}).findings
    assert [f.code for f in found] == ["GO4202"]


def test_a_token_as_a_name_is_in_no_format(compile_small, small, capsys):
    """SARIF and Markdown clean their texts on their own (tests/report)."""
    tree = small({DEPLOYMENT: small().files[DEPLOYMENT].replace("gpu: H100", f"gpu: H100\n      {TOKEN}: x")})
    result = compile_small({DEPLOYMENT: tree.files[DEPLOYMENT]})
    assert TOKEN in result.findings[0].message
    terminal.print_findings(result.findings, tree.read, terminal.console())
    assert TOKEN not in capsys.readouterr().out + json.dumps([finding_json(f) for f in result.findings])


GRAPHS = "functions/chat/manifests/more.yaml"
ONCE = [("GO4525", f"{GRAPHS}:2")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: DynamoGraphDeployment\nmetadata: {name: more}\nspec:\n", [("GO4107", f"{GRAPHS}:4")]),
        (
            "kind: DynamoGraphDeploymentRequest\nmetadata: {name: r}\nspec: {autoApply: no}\n",
            [("GO4525", f"{GRAPHS}:2")],
        ),
    ],
)
def test_a_mistake_is_told_once(compile_small, text, expected):
    """No rule that could not be checked because of it, and no general reason beside the kind's own."""
    result = compile_small({GRAPHS: f"apiVersion: nvidia.com/v1beta1\n{text}"})
    assert [(f.code, str(f.origin)) for f in result.findings] == expected
