"""Secrets that workloads name: what compile makes of the names."""

from __future__ import annotations

from gitops.model.findings import Origin
from gitops.model.identity import ObjectRef, UnitKey

FUNCTION = """\
apiVersion: gitops/v1alpha1
kind: Function
metadata:
  name: chat
spec:
  version: "1"
  operatorTypes: [dynamo]
  manifests: [manifests/]
  secretRefs:
    - name: pull
    - name: token
    - name: unused
"""
ACCOUNT = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: puller}\nimagePullSecrets: [{name: pull}]\n"
FILE = "functions/chat/function.yaml"


def test_a_unit_carries_the_names_where_they_are_written_and_which_components_use_them(compile_small):
    changed = {FILE: FUNCTION, "functions/chat/manifests/account.yaml": ACCOUNT}
    graph = compile_small(changed)
    unit = graph.units[UnitKey.parse("function/chat/h100-0@a")]
    assert [(ref.name, ref.origin) for ref in unit.secret_refs] == [
        ("pull", Origin(FILE, 10)),
        ("token", Origin(FILE, 11)),
        ("unused", Origin(FILE, 12)),
    ]
    account = next(o for o in unit.objects if o.ref.kind == "ServiceAccount" and o.ref.name == "puller")
    assert [ref.users for ref in unit.secret_refs] == [(account.component,), (), ()]
    copies = {ObjectRef("", "Secret", unit.namespace, name) for name in ("pull", "token", "unused")}
    assert unit.names == {o.ref for o in unit.objects} | copies
    assert not any(o.ref.kind == "Secret" for o in unit.objects), "no content without a cluster"


def test_the_same_name_in_another_kind_is_no_use_and_no_collision(compile_small):
    named = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: pull}\ndata: {secret-name: token}\n"
    compilation = compile_small({FILE: FUNCTION, "functions/chat/manifests/map.yaml": named})
    unit = compilation.units[UnitKey.parse("function/chat/h100-0@a")]
    assert [ref.users for ref in unit.secret_refs] == [(), (), ()]
    assert compilation.errors == ()
