"""The way from a tree to units: what comes out, what is cached, what is held."""

from __future__ import annotations

import json

import pytest

from gitops.model.adoption import Adoption, Tool
from gitops.model.identity import ClusterName, UnitKey, WorkloadKind, WorkloadRef
from gitops.model.operators import OperatorKind
from gitops.plan.compiling import Compiler
from gitops.plan.parents import applyset_id, parent_name
from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL, SOURCE_ANNOTATION, Mode, Stage
from gitops.policy.registry import OperatorRegistry

CHAT = WorkloadRef(WorkloadKind.FUNCTION, "chat")
BASE = WorkloadRef(WorkloadKind.BUNDLE, "base")


def errors(compilation):
    return [str(f) for f in compilation.errors]


def by_kind(unit):
    return {o.ref.kind: o for o in unit.objects}


def test_small_repository_compiles_into_units(compile_small):
    result = compile_small()
    assert errors(result) == []
    assert result.complete
    assert not result.held
    assert sorted(map(str, result.units)) == [
        "bundle/base@a",
        "bundle/base@b",
        "function/chat/h100-0@a",
        "function/chat/h100-1@b",
    ]


def test_function_objects_carry_namespace_marks_and_overlays(compile_small):
    unit = compile_small().units[UnitKey.parse("function/chat/h100-0@a")]
    assert unit.namespace == "fn-chat-h100-0"
    assert [o.stage for o in unit.objects] == [Stage.NAMESPACE, Stage.CONFIG, Stage.CUSTOM]
    objects = by_kind(unit)
    settings = objects["ConfigMap"].body
    assert settings["data"] == {"LEVEL": "debug"}
    assert settings["metadata"] == {
        "name": "settings",
        "namespace": "fn-chat-h100-0",
        "labels": {RECONCILER_LABEL: "test", PART_OF_LABEL: applyset_id(parent_name(unit.key))},
        "annotations": {SOURCE_ANNOTATION: "functions/chat/manifests/settings.yaml"},
    }
    assert objects["Namespace"].body["metadata"]["labels"]["team"] == "ml"
    assert objects["ConfigMap"].component == objects["DynamoGraphDeployment"].component
    assert (unit.version, unit.operator_types, unit.mode) == ("1", ("dynamo",), Mode.ENFORCE)


def test_quantities_are_canonical(compile_small):
    unit = compile_small().units[UnitKey.parse("function/chat/h100-0@a")]
    component = by_kind(unit)["DynamoGraphDeployment"].body["spec"]["components"][0]
    assert component["podTemplate"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}


def test_leaf_remembers_the_file_and_line_that_set_it(compile_small):
    unit = compile_small().units[UnitKey.parse("function/chat/h100-0@a")]
    provenance = by_kind(unit)["ConfigMap"].provenance
    assert str(provenance.origin_of(("data", "LEVEL"))) == "functions/chat/overlays/h100.yaml:6"
    assert str(provenance.origin_of(("kind",))) == "functions/chat/manifests/settings.yaml:2"


def test_same_tree_gives_the_same_bytes(small):
    from gitops.policy.registry import OperatorRegistry

    first, second = (Compiler(OperatorRegistry.shipped()).compile(small()) for _ in range(2))
    assert first == second
    assert [o.payload for u in first.units.values() for o in u.objects] == [
        o.payload for u in second.units.values() for o in u.objects
    ]


def test_payload_is_sorted_json(compile_small):
    for unit in compile_small().units.values():
        for item in unit.objects:
            assert json.loads(item.payload) == item.body
            assert list(item.body) == sorted(item.body)


# -- caching ----------------------------------------------------------------------------------------------------------


def test_second_compile_of_an_equal_tree_reads_nothing(compiler, small):
    first = compiler.compile(small())
    again = small()
    second = compiler.compile(again)
    assert again.reads == []
    assert [id(u.objects) for u in second.units.values()] == [id(u.objects) for u in first.units.values()]


def test_one_file_commit_touches_only_its_workload(compiler, small):
    first = compiler.compile(small())
    change = small({"functions/chat/overlays/h100.yaml": OTHER_LEVEL})
    second = compiler.compile(change)
    assert change.reads == ["functions/chat/overlays/h100.yaml"]
    same = {k for k, u in second.units.items() if u.content_key == first.units[k].content_key}
    assert sorted(map(str, same)) == ["bundle/base@a", "bundle/base@b"]
    assert all(u.commit == second.commit for u in second.units.values())


OTHER_LEVEL = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  LEVEL: trace
"""


def test_overlay_of_one_specification_leaves_the_other_alone(compiler, small):
    def deployment(level):
        return f"""\
        apiVersion: gitops/v1alpha1
        kind: FunctionDeployment
        metadata: {{name: chat}}
        spec:
          gpuSpecifications:
            - id: one
              gpu: H100
              clusters: [a]
            - id: two
              gpu: H100
              clusters: [a]
              manifestMergePatches:
                - target: {{apiVersion: v1, kind: ConfigMap, name: settings}}
                  patch: {{data: {{LEVEL: {level}}}}}
        """

    change = {"functions/chat/overlays/h100.yaml": None}
    first = compiler.compile(small({**change, "functions/chat/deployment.yaml": deployment("debug")}))
    second = compiler.compile(small({**change, "functions/chat/deployment.yaml": deployment("trace")}))
    assert errors(first) == errors(second) == []
    moved = [str(k) for k in first.units if first.units[k].content_key != second.units[k].content_key]
    assert moved == ["function/chat/two-0@a"]


def test_content_key_covers_what_a_cluster_document_gives(compiler, small, compile_small):
    first = compile_small()
    text = small().files["clusters/a.yaml"]
    other = compile_small({"clusters/a.yaml": text.replace("team: ml", "team: infra")})
    moved = [str(k) for k in first.units if first.units[k].content_key != other.units[k].content_key]
    assert moved == ["function/chat/h100-0@a"]
    region = compile_small({"clusters/a.yaml": text.replace("north", "west")})
    assert all(first.units[k].content_key == region.units[k].content_key for k in first.units)


def test_content_key_changes_with_the_reconcilers_name(compile_small):
    first = compile_small()
    other = compile_small({"gitops.yaml": "apiVersion: gitops/v1alpha1\nkind: Repository\nmetadata: {name: other}\n"})
    assert all(first.units[k].content_key != other.units[k].content_key for k in first.units)


def test_content_key_changes_with_what_operator_types_say(small):
    shipped = OperatorRegistry.shipped()
    dynamo = shipped.types["dynamo"]
    spec = dynamo.spec.model_copy(update={"reservedMetadataPrefixes": ["example.com/"]})
    types = {**shipped.types, "dynamo": dynamo.model_copy(update={"spec": spec})}
    first = Compiler(shipped).compile(small())
    other = Compiler(OperatorRegistry.of(types.values())).compile(small())
    assert all(first.units[k].content_key != other.units[k].content_key for k in first.units)


def test_a_namespace_template_that_moves_in_its_file_is_found_where_it_is(compile_small, small):
    """Nothing that is sent changes, but drift of the namespace's labels is reported with their place."""
    text = small().files["clusters/a.yaml"]
    moved = {}
    for change in ({}, {"clusters/a.yaml": text.replace("spec:\n", "spec:\n  # a remark\n\n")}):
        result = compile_small(change)
        (unit,) = (u for k, u in result.units.items() if str(k) == "function/chat/h100-0@a")
        origin = by_kind(unit)["Namespace"].provenance.origin_of(("metadata", "labels", "team"))
        moved[origin.line] = origin.file
    first, second = sorted(moved)
    assert (second - first, set(moved.values())) == (2, {"clusters/a.yaml"})


def test_a_function_holds_no_cluster_scoped_kind_even_of_its_operator(small):
    shipped = OperatorRegistry.shipped()
    dynamo = shipped.types["dynamo"]
    cluster_scoped = OperatorKind(
        group="example.com", version="v1", kind="Fabric", resource="fabrics", scope="Cluster", early=False
    )
    spec = dynamo.spec.model_copy(update={"kinds": [*dynamo.spec.kinds, cluster_scoped]})
    types = {**shipped.types, "dynamo": dynamo.model_copy(update={"spec": spec})}
    fabric = {"functions/chat/manifests/fabric.yaml": "apiVersion: example.com/v1\nkind: Fabric\nmetadata: {name: f}\n"}
    result = Compiler(OperatorRegistry.of(types.values())).compile(small(fabric))
    assert {f.code for f in result.errors} == {"GO4101"}


def test_consent_to_adoption_is_the_workloads_and_changes_no_content_key(compile_small, small):
    before = compile_small()
    text = small().files["functions/chat/deployment.yaml"]
    result = compile_small({"functions/chat/deployment.yaml": text + "  adoptFrom: [helm, flux]\n"})
    chat = [unit for key, unit in result.units.items() if key.name == "chat"]
    assert {u.adoption for u in chat} == {Adoption(True, frozenset({Tool.HELM, Tool.FLUX}))}
    assert {k: u.content_key for k, u in result.units.items()} == {k: u.content_key for k, u in before.units.items()}
    never = compile_small({"functions/chat/deployment.yaml": text + "  adopt: never\n  adoptFrom: [helm]\n"})
    (error,) = never.errors
    assert "nothing is adopted from a tool where `adopt` is `never`" in error.message
    assert error.origin.line == len(text.splitlines()) + 2


def test_mode_is_the_strictest(compile_small, small):
    text = small().files["clusters/a.yaml"]
    result = compile_small(
        {
            "clusters/a.yaml": text + "  mode: report\n",
            "functions/chat/deployment.yaml": small().files["functions/chat/deployment.yaml"] + "  mode: paused\n",
        }
    )
    modes = {str(k): u.mode for k, u in result.units.items()}
    assert modes == {
        "bundle/base@a": Mode.REPORT,
        "bundle/base@b": Mode.ENFORCE,
        "function/chat/h100-0@a": Mode.PAUSED,
        "function/chat/h100-1@b": Mode.PAUSED,
    }


# -- placement --------------------------------------------------------------------------------------------------------


def test_pins_hold_when_a_cluster_joins(compile_small, small):
    first = compile_small()
    live = ["function/chat/h100-0@a", "function/chat/h100-1@b"]
    third = small().files["clusters/a.yaml"].replace("name: a", "name: c").replace("credentials: a", "credentials: c")
    second = compile_small({"clusters/c.yaml": third}, live=live)
    functions = {k for k in second.units if k.kind is WorkloadKind.FUNCTION}
    assert functions == {k for k in first.units if k.kind is WorkloadKind.FUNCTION}


def test_no_instances_asked_for_means_none_and_still_checks_patches(compile_small, small):
    text = small().files["functions/chat/deployment.yaml"].replace("minInstances: 2", "minInstances: 0")
    assert [k for k in compile_small({"functions/chat/deployment.yaml": text}).units if k.kind == "function"] == []
    broken = compile_small(
        {"functions/chat/deployment.yaml": text, "functions/chat/overlays/h100.yaml": "kind: ConfigMap\n"}
    )
    assert [f.code for f in broken.errors] == ["GO3005"]


def test_per_cluster_puts_the_same_on_each(compile_small, small):
    text = small().files["functions/chat/deployment.yaml"] + "      perCluster: true\n"
    functions = [str(k) for k in compile_small({"functions/chat/deployment.yaml": text}).units if k.kind == "function"]
    assert functions == [
        "function/chat/h100-0@a",
        "function/chat/h100-0@b",
        "function/chat/h100-1@a",
        "function/chat/h100-1@b",
    ]


# -- held -------------------------------------------------------------------------------------------------------------


def test_broken_workload_is_held_and_the_others_go_on(compile_small):
    result = compile_small({"functions/chat/manifests/settings.yaml": "a: [\n"})
    assert result.held == {CHAT}
    assert result.complete
    assert sorted(map(str, result.units)) == ["bundle/base@a", "bundle/base@b"]


def test_error_in_a_list_of_findings_names_its_workload(compile_small):
    result = compile_small({"bundles/base/objects.yaml": "a: [\n"})
    assert {f.workload for f in result.errors} == {BASE}


@pytest.mark.parametrize("content", ["a: [\n", b"\xff\xfe\x00", "kind: Cluster\n"], ids=["syntax", "bytes", "fields"])
def test_unreadable_cluster_document_prunes_and_moves_nothing(compile_small, content):
    live = ["function/chat/h100-0@b", "function/chat/h100-1@a"]
    result = compile_small({"clusters/b.yaml": content}, live=live)
    assert not result.complete
    assert result.unreadable_clusters == {"b"}
    assert sorted(map(str, result.units)) == ["bundle/base@a", "function/chat/h100-1@a"]
    assert CHAT not in result.held
    assert "GO4002" not in {f.code for f in result.findings}, "what is pinned there does not wait for a place"


def test_what_may_live_on_a_cluster_that_has_not_answered_is_not_placed_elsewhere(compile_small):
    """design: an unreachable cluster keeps its pins, also when a restart has forgotten them."""
    result = compile_small({}, live=["function/chat/h100-0@a"], unheard=frozenset({ClusterName("b")}))
    assert sorted(k for k in map(str, result.units) if k.startswith("function")) == ["function/chat/h100-0@a"]
    assert "GO4002" in {f.code for f in result.findings}
    assert result.complete, "what waits for a place has no parent anywhere that answers: nothing to prune by mistake"
    again = compile_small({}, live=["function/chat/h100-0@a", "function/chat/h100-1@a"])
    assert sorted(k for k in map(str, again.units) if k.startswith("function")) == [
        "function/chat/h100-0@a",
        "function/chat/h100-1@a",
    ]


def test_a_cluster_that_is_the_only_choice_needs_not_to_answer(compile_small, small):
    text = small().files["functions/chat/deployment.yaml"] + "      clusters: [b]\n"
    result = compile_small({"functions/chat/deployment.yaml": text}, unheard=frozenset({ClusterName("b")}))
    assert {k.cluster for k in result.units if k.kind == "function"} == {"b"}


def test_a_cluster_document_under_an_odd_name_still_is_that_cluster(compile_small, small):
    result = compile_small({"clusters/b.yaml": None, "clusters/b.yml": small().files["clusters/b.yaml"]})
    assert (result.complete, result.unreadable_clusters) == (False, {"b"})


def test_gpus_that_just_suffice_are_no_finding(compile_small, small):
    text = small().files["functions/chat/deployment.yaml"] + "      instanceType: H100x2\n      clusters: [a]\n"
    live = [f"function/chat/h100-{i}@a" for i in range(5)]
    for instances, codes in ((4, set()), (5, {"GO5005"})):
        asked = text.replace("minInstances: 2", f"minInstances: {instances}")
        result = compile_small({"functions/chat/deployment.yaml": asked}, live=live)
        assert {f.code for f in result.findings} & {"GO5005"} == codes


def test_5_an_empty_secret_is_sent_without_data(compile_small):
    """Data that somebody puts into it on the cluster is then never ours to take away."""
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: web}\ndata: {}\nstringData: {}\n"
    result = compile_small({"bundles/base/objects.yaml": secret})
    (desired,) = next(u for k, u in result.units.items() if k.kind is WorkloadKind.BUNDLE).objects
    assert desired.body.keys() == {"apiVersion", "kind", "metadata"}


def test_unpinned_instance_waits_for_an_unreadable_cluster_document(compile_small):
    result = compile_small({"clusters/b.yaml": "a: [\n"})
    assert [k for k in result.units if k.kind == "function"] == []
    assert "GO4002" in {f.code for f in result.findings}


def test_r01_r02_empty_tree_is_incomplete(compiler, tree_of):
    result = compiler.compile(tree_of({}))
    assert not result.complete
    assert result.repository is None
    assert [f.code for f in result.findings] == ["GO2001"]


def test_r02_moved_folder_is_never_an_empty_set(compiler, small):
    moved = {path.replace("functions/", "functions1/"): text for path, text in small().files.items()}
    result = compiler.compile(small({path: None for path in small().files if path.startswith("functions/")} | moved))
    assert not result.complete
    assert "GO2111" in {f.code for f in result.findings}


@pytest.mark.parametrize("beside", [True, False])
def test_a_folder_in_the_place_of_the_repository_document_ends_no_compile(compiler, small, beside):
    files = {"gitops.yaml/a.yaml": "a: 1", "gitops.yaml/b/c.yaml": "a: 1"}
    result = compiler.compile(small(files if beside else {"gitops.yaml": None, **files}))
    told = [f.message for f in result.findings if f.code == "GO2108"]
    assert told == ["gitops.yaml is a folder; it should be a file"]
    assert result.complete == beside


def test_a_file_that_is_a_folder_as_well_ends_no_compile(compiler, small):
    """No file system has both; the objects of a Git tree may."""
    install = "apiVersion: gitops/v1alpha1\nkind: OperatorInstall\nmetadata: {name: dynamo}\n"
    install += "spec: {operatorType: dynamo, version: 1.5.0}\n"
    files = {path: small().files.get(path, install) for path in (*small().files, "operators/dynamo.yaml")}
    result = compiler.compile(small({**files, **{f"{path}/more.yaml": "a: 1" for path in files}}))
    assert "operators/dynamo.yaml/more.yaml" in {f.origin.file for f in result.errors}
    assert not result.complete


def test_r01_no_workload_at_all_needs_consent(compiler, small):
    nothing = {path: None for path in small().files if path.startswith(("functions/", "bundles/"))}
    assert not compiler.compile(small(nothing)).complete
    consent = "apiVersion: gitops/v1alpha1\nkind: Repository\nmetadata: {name: test}\nspec: {allowEmpty: true}\n"
    result = compiler.compile(small({**nothing, "gitops.yaml": consent}))
    assert result.complete
    assert result.units == {}


def test_r01_renamed_manifest_holds_the_workload(compile_small, small):
    text = small().files["bundles/base/objects.yaml"]
    result = compile_small({"bundles/base/objects.yaml": None, "bundles/base/objects.yaml.bak": text})
    assert result.held == {BASE}


@pytest.mark.parametrize("rest", ["operators/dynamo.yaml", "tasks/job/task.yaml"])
def test_r01_what_applies_nothing_is_no_workload(compiler, small, rest):
    files = {path: None for path in small().files if path.startswith(("functions/", "bundles/"))}
    result = compiler.compile(small({**files, rest: "kind: x\n"}))
    assert not result.complete
    assert "GO2018" in {f.code for f in result.errors}


def test_removed_workload_is_complete(compiler, small):
    gone = {path: None for path in small().files if path.startswith("bundles/")}
    result = compiler.compile(small(gone))
    assert result.complete
    assert BASE not in result.held
    assert all(k.kind == "function" for k in result.units)


def test_missing_function_document_holds_by_folder_name(compile_small):
    result = compile_small({"functions/chat/function.yaml": None})
    assert result.held == {CHAT}
    assert [f.code for f in result.errors] == ["GO2016"]


def test_two_owners_of_one_object_are_both_held(compiler, small):
    twin = {
        "bundles/other/bundle.yaml": small().files["bundles/base/bundle.yaml"].replace("base", "other"),
        "bundles/other/objects.yaml": small().files["bundles/base/objects.yaml"],
    }
    result = compiler.compile(small(twin))
    assert result.held == {BASE, WorkloadRef(WorkloadKind.BUNDLE, "other")}
    assert {str(f.origin) for f in result.errors} == {
        "bundles/base/objects.yaml:1",
        "bundles/other/objects.yaml:1",
    }


def test_only_compiles_what_is_asked_for(compile_small):
    result = compile_small(only=frozenset({BASE}))
    assert sorted(map(str, result.units)) == ["bundle/base@a", "bundle/base@b"]
    assert result.complete


def test_g15_names_that_differ_in_case_warn_and_both_compile(compile_small, small):
    twin = {
        path.replace("/chat/", "/Chat/"): (
            text.replace("name: chat\n", "name: Chat\n", 1) if "manifests" not in path else text
        )
        for path, text in small().files.items()
        if path.startswith("functions/")
    }
    result = compile_small(twin)
    assert errors(result) == []
    assert {f.code for f in result.findings} == {"GO2107"}
    namespaces = [u.namespace for u in result.units.values() if u.namespace]
    assert len(namespaces) == 4
    assert len({n.casefold() for n in namespaces}) == 4


def test_g16_odd_file_names_are_read(compile_small, small):
    odd = {
        f"bundles/base/m/{name}.yaml": small()
        .files["bundles/base/objects.yaml"]
        .replace("name: page", f"name: page-{i}")
        for i, name in enumerate(["über app", 'a"b', "new\nline", "-f"])
    }
    bundle = small().files["bundles/base/bundle.yaml"].replace("[objects.yaml]", "[objects.yaml, m]")
    result = compile_small({**odd, "bundles/base/bundle.yaml": bundle})
    assert errors(result) == []
    assert len(result.units[UnitKey.parse("bundle/base@a")].objects) == 5


def test_y17_list_items_become_objects(compile_small, small):
    item = small().files["bundles/base/objects.yaml"]
    plain = compile_small().units[UnitKey.parse("bundle/base@a")]
    wrapped = "apiVersion: v1\nkind: List\nitems:\n- " + item.replace("\n", "\n  ").rstrip() + "\n"
    listed = compile_small({"bundles/base/objects.yaml": wrapped}).units[UnitKey.parse("bundle/base@a")]
    assert [o.digest for o in listed.objects] == [o.digest for o in plain.objects]


def test_depends_on_orders_and_is_not_sent(compile_small):
    text = """\
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: a
      namespace: web
      annotations: {gitops/depends-on: "ConfigMap/b, Deployment.apps/web/d"}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: b, namespace: web}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: d, namespace: web}
    """
    unit = compile_small({"bundles/base/objects.yaml": text}).units[UnitKey.parse("bundle/base@a")]
    assert [o.ref.name for o in unit.objects] == ["b", "d", "a"]
    last = unit.objects[-1]
    assert last.stage is Stage.WORKLOAD
    assert [r.name for r in last.depends_on] == ["b", "d"]
    assert last.body["metadata"]["annotations"] == {SOURCE_ANNOTATION: "bundles/base/objects.yaml"}
    assert len({o.component for o in unit.objects}) == 1


def test_allow_delete_annotation_is_sent(compile_small, small):
    text = (
        small()
        .files["bundles/base/objects.yaml"]
        .replace("metadata:\n", 'metadata:\n  annotations: {gitops/allow-delete: "true"}\n')
    )
    unit = compile_small({"bundles/base/objects.yaml": text}).units[UnitKey.parse("bundle/base@a")]
    assert unit.objects[0].body["metadata"]["annotations"]["gitops/allow-delete"] == "true"


def test_base_digest_ignores_overlays_and_file_names(compile_small, small):
    first = compile_small()
    key = UnitKey.parse("function/chat/h100-0@a")
    overlay = compile_small({"functions/chat/overlays/h100.yaml": OTHER_LEVEL})
    assert first.units[key].base_digest == overlay.units[key].base_digest
    moved = {
        "functions/chat/manifests/settings.yaml": None,
        "functions/chat/manifests/a.yaml": small().files["functions/chat/manifests/settings.yaml"],
    }
    assert compile_small(moved).units[key].base_digest == first.units[key].base_digest
    image = small().files["functions/chat/manifests/graph.yaml"].replace("1.0.0", "1.0.1")
    other = compile_small({"functions/chat/manifests/graph.yaml": image})
    assert other.units[key].base_digest != first.units[key].base_digest


def test_service_of_the_function_is_on_the_unit(compile_small, small):
    text = small().files["functions/chat/deployment.yaml"] + "  serviceName: chat\n  servicePort: 8000\n"
    result = compile_small({"functions/chat/deployment.yaml": text})
    unit = result.units[UnitKey.parse("function/chat/h100-0@a")]
    assert (unit.service_name, unit.service_port) == ("chat", 8000)
    assert unit.content_key != compile_small().units[unit.key].content_key


def test_comment_change_keeps_the_objects(compile_small, small):
    first = compile_small()
    text = "# a comment\n" + small().files["functions/chat/manifests/graph.yaml"]
    second = compile_small({"functions/chat/manifests/graph.yaml": text})
    key = UnitKey.parse("function/chat/h100-0@a")
    assert [o.digest for o in first.units[key].objects] == [o.digest for o in second.units[key].objects]
    assert by_kind(second.units[key])["DynamoGraphDeployment"].origin.line == 2


@pytest.mark.parametrize("twin", ["functions/talk", "tasks/talk"])
def test_two_workloads_in_one_namespace_are_both_held(compile_small, small, twin):
    """Of two instances in one namespace the Namespace object stands for all objects; a task then has an error too."""
    files = small().files
    function = files["functions/chat/function.yaml"].replace("spec:\n", "spec:\n  namespace: shared\n", 1)
    one = files["functions/chat/deployment.yaml"].replace("minInstances: 2", "minInstances: 1\n      clusters: [a]")
    change = {"functions/chat/function.yaml": function, "functions/chat/deployment.yaml": one}
    if twin.startswith("functions"):
        for path, text in {**files, **change}.items():
            if path.startswith("functions/chat/"):
                name = path.rpartition("/")[2]
                mine = (
                    text.replace("name: chat", "name: talk", 1)
                    if name in ("function.yaml", "deployment.yaml")
                    else text
                )
                change[path.replace("/chat/", "/talk/")] = mine
    else:
        change["tasks/talk/task.yaml"] = (
            "apiVersion: gitops/v1alpha1\nkind: Task\nmetadata: {name: talk}\nspec:\n  version: '1'\n"
            "  namespace: shared\n  operatorTypes: [nim]\n  manifests: [c.yaml]\n"
            "  gpuSpecification: {gpu: H100, clusters: [a]}\n"
        )
        change["tasks/talk/c.yaml"] = (
            "apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMCache\nmetadata: {name: c}\n"
            "spec: {storage: {pvc: {name: models}}}\n"
        )
    result = compile_small(change)
    assert {f.code for f in result.errors} == {"GO5002"}
    assert {str(w) for w in result.held} == {"function/chat", twin.replace("s/", "/")}
    assert result.left_alone == set()
    assert not result.not_run


def test_r05_a_held_bundle_names_what_its_files_declare_with_and_without_namespace(compile_small):
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: web}\ndata: {a: null}\n"
    result = compile_small({"bundles/base/objects.yaml": text})
    assert sorted(map(str, result.named[BASE])) == ["ConfigMap page", "ConfigMap web/page"]
    unread = compile_small({"bundles/base/objects.yaml": "a: ["})
    assert BASE not in unread.named


def test_the_scope_of_a_kind_is_that_of_the_bundles_own_definition(compile_small):
    definition = (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: xs.example.com}\n"
        "spec: {group: example.com, scope: SCOPE, names: {kind: X, plural: xs}}\n---\n"
        "apiVersion: example.com/v1\nkind: X\nmetadata: {name: x}\n"
    )
    for scope, codes in (("Namespaced", ["GO4104"]), ("Cluster", [])):
        result = compile_small({"bundles/base/objects.yaml": definition.replace("SCOPE", scope)})
        assert [f.code for f in result.findings] == codes


def test_a_folder_is_no_patch_even_with_one_file_in_it(compile_small, small):
    text = small().files["functions/chat/deployment.yaml"].replace("overlays/h100.yaml", "overlays")
    messages = [f.message for f in compile_small({"functions/chat/deployment.yaml": text}).errors]
    assert messages == ["overlays is a folder; a patch is one file"]


def test_the_cluster_may_be_stricter_than_the_function(compile_small, small):
    text = small().files["clusters/a.yaml"] + "  mode: paused\n"
    result = compile_small({"clusters/a.yaml": text}, live=["function/chat/h100-0@a"])
    modes = {str(k): u.mode for k, u in result.units.items()}
    assert modes["function/chat/h100-0@a"] is Mode.PAUSED


def test_an_unreadable_cluster_that_is_not_listed_is_not_waited_for(compile_small, small):
    text = small().files["functions/chat/deployment.yaml"] + "      clusters: [a]\n"
    result = compile_small({"functions/chat/deployment.yaml": text, "clusters/b.yaml": "a: ["})
    assert "GO4002" not in {f.code for f in result.findings}
    assert len([k for k in result.units if k.kind == "function"]) == 2
