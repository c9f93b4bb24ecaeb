"""Every code of documents, files, overlays, policy and units: at least one input that gives it, at the exact line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import gitops.overlays.codes
import gitops.plan.codes
import gitops.policy.codes
from gitops.model.identity import ClusterName, GroupVersionKind, UnitKey
from gitops.model.trees import EntryKind
from gitops.plan.compiling import Compiler
from gitops.plan.revisions import check_revisions
from gitops.policy.facts import ClusterFacts
from gitops.policy.placement import pins_of
from gitops.policy.published import read_published
from gitops.policy.registry import OperatorRegistry

FUNCTION = "functions/chat/function.yaml"
DEPLOYMENT = "functions/chat/deployment.yaml"
SETTINGS = "functions/chat/manifests/settings.yaml"
MORE = "functions/chat/manifests/more.yaml"
OVERLAY = "functions/chat/overlays/h100.yaml"
OBJECTS = "bundles/base/objects.yaml"
BUNDLE = "bundles/base/bundle.yaml"


def function(spec: str) -> str:
    return f"apiVersion: gitops/v1alpha1\nkind: Function\nmetadata:\n  name: chat\nspec:\n{spec}"


FUNCTION_SPEC = '  version: "1"\n  operatorTypes: [dynamo]\n  manifests:\n    - manifests/\n'


def deployment(spec: str) -> str:
    head = (
        "apiVersion: gitops/v1alpha1\nkind: FunctionDeployment\nmetadata:\n  name: chat\nspec:\n  gpuSpecifications:\n"
    )
    return head + spec


SPEC = "    - id: h100\n      gpu: H100\n      manifestMergePatches: [overlays/h100.yaml]\n"


def settings(more: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n{more}"


def in_web(kind: str, more: str, version: str = "v1", namespace: str = "  namespace: web\n") -> str:
    return f"apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: page\n{namespace}{more}"


TOKEN = "ghp_" + "a" * 40
KEY = "-----BEGIN RSA " + "PRIVATE KEY-----"

DATA = yaml.safe_load((Path(__file__).parent / "data" / "findings.yaml").read_text(encoding="utf-8"))


def content(value: str | dict[str, str] | None) -> str | EntryKind | None:
    if isinstance(value, dict):
        return EntryKind(value["entry"])
    if not value:
        return value
    words = {"$TOKEN": TOKEN, "$KEY": KEY, "$LONG": "a" * 300_000, "$DEEP": "[" * 198 + "]" * 198}
    for word, meaning in words.items():
        value = value.replace(word, meaning)
    return value


def facts_of(told: dict[str, Any]) -> ClusterFacts:
    served = [kind.rpartition("/") for kind in told.get("served", ())]
    kinds = {GroupVersionKind.parse(version, kind): True for version, _, kind in served} or None
    return ClusterFacts(served=kinds, versions=told.get("versions", {}), refused=told.get("refused", {}))


@pytest.mark.parametrize("case", DATA, ids=lambda case: case["id"])
def test_finding(compile_small, compiler, small, case):
    """A case with `before` is about what changed since then, one with `published` about what is known of clusters."""
    facts = {ClusterName(name): facts_of(told) for name, told in case.get("facts", {}).items()}
    states = [
        compile_small(
            {path: content(value) for path, value in case[name].items()}, live=case.get("live", ()), facts=facts
        )
        for name in ("before", "files")
        if name in case
    ]
    if "published" in case:
        known = read_published({path: text.encode() for path, text in case["published"].items()})
        pins = pins_of(map(UnitKey.parse, case.get("live", ())))
        judged = Compiler(OperatorRegistry.shipped(), known).compile(small(), facts=known.facts, pins=pins)
        findings = [*known.findings, *judged.findings]
    elif "before" in case:
        assert states[-1].errors == ()
        findings = check_revisions(*states, compiler.registry)
    else:
        findings = states[-1].findings
    places = [str(f.origin) for f in findings if f.code == case["code"]]
    assert case["at"] in places, "\n".join(map(str, findings))


def test_every_code_has_a_case():
    defined = {
        value
        for module in (gitops.overlays.codes, gitops.plan.codes, gitops.policy.codes)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and value.startswith("GO")
    }
    assert defined <= {case["code"] for case in DATA}


@pytest.mark.parametrize("secret", [TOKEN, KEY, "https://bot:s3cr3tpass@git.example/x.git"])
def test_i05_a_credential_is_never_shown(compile_small, secret):
    change = {
        OBJECTS: in_web("ConfigMap", f"data:\n  a: '{secret}'\n"),
        "gitops.yaml": f"apiVersion: gitops/v1alpha1\nkind: Repository\nmetadata:\n  name: '{secret}'\n",
        FUNCTION: function(FUNCTION_SPEC + f"  tags: '{secret}'\n"),
    }
    for path, text in change.items():
        result = compile_small({path: text})
        assert result.errors
        shown = "\n".join(f"{f.message} {f.hint} {f.path}" for f in result.findings)
        assert secret not in shown


def test_credential_like_value_can_be_allowed(compile_small):
    text = in_web("ConfigMap", f"  annotations: {{gitops/allow-credential-like: 'true'}}\ndata:\n  a: {TOKEN}\n")
    result = compile_small({OBJECTS: text})
    assert result.errors == ()
    objects = [o for k, u in result.units.items() if k.kind == "bundle" for o in u.objects]
    assert all("gitops/allow-credential-like" not in o.body["metadata"]["annotations"] for o in objects)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("http://169.254.169.254/x", "outside the repository"),
        ("https://ok.example/x.yaml", "outside the repository"),
        ("git::ssh://git@example/x", "outside the repository"),
        ("file:///etc/passwd", "outside the repository"),
        ("//host/share", "begins with /"),
        ("/etc/passwd", "begins with /"),
        ("git@example.com:x.git", "outside the repository"),
        ("a/../../b.yaml", "`..`"),
        ("-x.yaml", "begins with -"),
        ("a\\b.yaml", "backslash"),
    ],
)
def test_x03_only_plain_paths_are_resolved(compile_small, path, words):
    text = f"apiVersion: gitops/v1alpha1\nkind: Bundle\nmetadata: {{name: base}}\nspec:\n  manifests:\n  - '{path}'\n"
    findings = [f for f in compile_small({BUNDLE: text}).findings if f.code == "GO2105"]
    assert len(findings) == 1
    assert words in findings[0].message


def test_y06_number_in_a_text_field_is_quoted_as_written(compile_small):
    text = in_web("Pod", "spec:\n  containers:\n  - name: a\n    env:\n    - name: V\n      value: 1.20\n")
    messages = [f.message for f in compile_small({OBJECTS: text}).findings if f.code == "GO4108"]
    assert messages == ['Pod page: spec.containers[0].env[0].value must be text: write "1.20"']


def test_unknown_field_gets_a_guess(compile_small):
    messages = [f.message for f in compile_small({FUNCTION: function(FUNCTION_SPEC + "  verison: x\n")}).findings]
    assert messages == ["unknown field spec.verison; did you mean version?"]


@pytest.mark.parametrize(
    ("place", "key", "words"),
    [
        ("annotations", "gitops/depend-on", "gitops/depend-on may not be set in Git; did you mean gitops/depends-on?"),
        ("annotations", "gitops/source", "gitops/source may not be set in Git"),
        ("labels", "gitops/conflicts", "gitops/conflicts is an annotation, no label"),
    ],
)
def test_a_mark_of_ours_that_may_not_be_set_gets_a_guess(compile_small, place, key, words):
    messages = [f.message for f in compile_small({OBJECTS: in_web("ConfigMap", f"  {place}: {{{key}: x}}\n")}).errors]
    assert messages == [f"ConfigMap page: {words}"]


def test_a_message_is_bounded_whatever_the_author_writes(compile_small, small):
    text = small().files["bundles/base/bundle.yaml"] + f"  ? {'k' * 100_000}\n  : 1\n"
    (found,) = compile_small({"bundles/base/bundle.yaml": text}).errors
    assert found.code == "GO2002"
    assert len(found.message) == 1000


def test_all_findings_of_all_files_are_collected(compile_small):
    result = compile_small(
        {
            FUNCTION: function(FUNCTION_SPEC.replace("dynamo", "x") + "  a: 1\n  b: 2\n"),
            OBJECTS: in_web("ConfigMap", "data:\n  a: 1\n  b: 2\n"),
            "clusters/a.yaml": "a: [\n",
        }
    )
    assert [f.code for f in result.errors].count("GO2002") == 2
    assert [f.code for f in result.errors].count("GO4108") == 2
    assert "GO1005" in {f.code for f in result.errors}


def test_g09_target_of_a_link_is_never_read(compiler, small):
    tree = small({SETTINGS: EntryKind.SYMLINK})
    compiler.compile(tree)
    assert SETTINGS not in tree.reads


def test_g07_submodule_outside_our_folders_is_ignored(compile_small):
    result = compile_small({"vendor/thing": EntryKind.SUBMODULE, "docs/link": EntryKind.SYMLINK})
    assert result.findings == ()
    assert result.complete


@pytest.mark.parametrize("where", ["base", "earlier patch", "operation"])
def test_a_credential_that_an_overlay_hides_is_found(compile_small, where):
    target = "{apiVersion: v1, kind: ConfigMap, name: settings}"
    head = "apiVersion: gitops/v1alpha1\nkind: FunctionDeployment\nmetadata:\n  name: chat\nspec:\n"
    gpus = "  gpuSpecifications: [{id: h100, gpu: H100, manifestMergePatches: [overlays/h100.yaml]}]\n"
    patch = f"  patches:\n    - target: {target}\n      patch: {{data: {{LEVEL: {TOKEN}}}}}\n"
    operation = (
        f"  patches:\n    - target: {target}\n      operations: [{{op: add, path: /data/LEVEL, value: {TOKEN}}}]\n"
    )
    change = {
        "base": {SETTINGS: f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  LEVEL: {TOKEN}\n"},
        "earlier patch": {DEPLOYMENT: head + patch + gpus},
        "operation": {DEPLOYMENT: head + operation + gpus},
    }[where]
    (found,) = compile_small(change).errors
    assert found.code == "GO4202"
    assert str(found.origin) == (f"{SETTINGS}:6" if where == "base" else f"{DEPLOYMENT}:8")
    assert TOKEN not in found.message


def test_an_object_that_allows_credentials_allows_hidden_ones(compile_small):
    allowed = "  annotations: {gitops/allow-credential-like: 'true'}\n"
    assert compile_small({SETTINGS: settings(f"{allowed}data:\n  LEVEL: {TOKEN}\n")}).errors == ()


def test_labels_and_env_of_a_schema_are_not_taken_for_those_of_an_object(compile_small):
    """A field that is called `labels` may be any map below `properties`, where fields are described."""
    body = "  namespace: web\nspec:\n  properties:\n    labels: {x: 5}\n"
    text = f"apiVersion: example.com/v1\nkind: Form\nmetadata:\n  name: page\n{body}"
    assert compile_small({OBJECTS: text}).errors == ()
    other = text.replace("properties", "template")
    assert [f.code for f in compile_small({OBJECTS: other}).errors] == ["GO4108"]


def test_a_credential_is_told_once(compile_small):
    assert [f.code for f in compile_small({OVERLAY: settings(f"data:\n  LEVEL: {TOKEN}\n")}).errors] == ["GO4202"]


def test_a_misplaced_object_is_judged_all_the_same(compile_small):
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: page\ndata:\n  a: {TOKEN}\n"
    assert [f.code for f in compile_small({OBJECTS: text}).errors] == ["GO4104", "GO4202"]


def test_findings_of_one_object_are_bounded(compile_small):
    data = "".join(f"  k{n}: {n}\n" for n in range(5_000))
    result = compile_small({OBJECTS: in_web("ConfigMap", "data:\n" + data)})
    assert len(result.findings) == 101
    assert [f.code for f in result.findings].count("GO1009") == 1


def test_y06_the_authors_tag_is_quoted(compile_small):
    text = "apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMService\nmetadata: {name: a, namespace: web}\n"
    found = compile_small({OBJECTS: text + "spec: {image: {repository: x, tag: 1.20}}\n"}).errors
    assert [f.message for f in found if f.code == "GO4108"] == [
        'NIMService a: spec.image.tag must be text: write "1.20"'
    ]


@pytest.mark.parametrize(
    ("declared", "written", "told"),
    [
        pytest.param("team", "taem", True, id="letters swapped"),
        pytest.param("team", "teams", True, id="a letter more"),
        pytest.param("team", "team", False, id="as declared"),
        pytest.param("team-a", "team-b", False, id="a sibling by letter"),
        pytest.param("team-9", "team-10", False, id="a sibling by number"),
        pytest.param("team", "monitoring", False, id="others made it"),
    ],
)
def test_o03_a_namespace_that_looks_misspelled_is_told(compile_small, declared, written, told):
    space = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {declared}}}\n"
    page = in_web("ConfigMap", "data: {a: b}\n", namespace=f"  namespace: {written}\n")
    result = compile_small({OBJECTS: f"{space}---\n{page}"})
    assert result.errors == ()
    found = [f for f in result.findings if f.code == gitops.plan.codes.NAMESPACE_MISSPELLED]
    assert [f.severity for f in found] == (["warning"] if told else [])
    assert all(f"but {declared}" in f.message for f in found)
