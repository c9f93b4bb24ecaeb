"""Lists merged by key: which items meet, in which order they come out, and what is refused."""

from __future__ import annotations

import itertools

import pytest

from gitops.manifests.raw import RawDocument
from gitops.manifests.reading import read_documents
from gitops.model.findings import Origin
from gitops.overlays import codes
from gitops.overlays.applying import Merged, apply_patches
from gitops.overlays.patches import MergePatchSource
from gitops.overlays.provenance import Provenance
from gitops.overlays.reporting import override_findings
from gitops.overlays.shapes import ListKind, Shape, merged_order

CONTAINER = Shape(
    {
        "env": Shape(kind=ListKind.MAP, keys=("name",)),
        "ports": Shape(kind=ListKind.MAP, keys=("containerPort", "protocol"), defaults={"protocol": "TCP"}),
    }
)
SHAPE = Shape(
    {
        "containers": Shape(kind=ListKind.MAP, keys=("name",), items=CONTAINER),
        "modes": Shape(kind=ListKind.SET),
        "services": Shape(values=CONTAINER),
    }
)

BASE = """\
containers:
- name: main
  image: a
  args: [one, two]
  env:
  - name: A
    value: "1"
  - name: B
    value: "2"
  ports:
  - containerPort: 80
- name: side
  image: b
modes: [r, w]
services:
  decode:
    env:
    - {name: A, value: "1"}
"""


def document(text: str, file: str) -> RawDocument:
    (found,) = read_documents(text.encode(), file=file).documents
    return found


def merge(text: str, base: str = BASE, shape: Shape | None = SHAPE) -> Merged:
    start, patch = document(base, "base.yaml"), document(text, "patch.yaml")
    source = MergePatchSource(patch.body, Provenance.of_document(patch), by_key=True)
    return apply_patches(start.body, Provenance.of_document(start), [source], shape=shape)


def names(items: list[dict[str, object]]) -> list[object]:
    return [item["name"] for item in items]


def test_p04_items_are_merged_and_none_is_lost():
    result = merge(
        """\
containers:
- name: main
  image: c
  env:
  - name: C
    value: "3"
  - name: B
    value: "9"
"""
    )
    main, side = result.body["containers"]
    assert main["image"] == "c"
    assert main["args"] == ["one", "two"]
    assert [(e["name"], e["value"]) for e in main["env"]] == [("A", "1"), ("C", "3"), ("B", "9")]
    assert side == {"name": "side", "image": "b"}
    assert [(o.path, o.before, o.after) for o in result.overridden] == [
        (("containers", 0, "image"), "a", "c"),
        (("containers", 0, "env", 2, "value"), "2", "9"),
    ]


def test_origins_move_with_their_items():
    result = merge("containers:\n- name: main\n  env:\n  - name: 0\n    value: x\n".replace("0", '"0"'))
    origin = result.provenance.origin_of
    env = ("containers", 0, "env")
    assert names(result.body["containers"][0]["env"]) == ["A", "B", "0"]
    assert origin((*env, 1, "value")) == Origin("base.yaml", 9)
    assert origin((*env, 2, "value")) == Origin("patch.yaml", 5)
    assert origin((*env, 2)) == Origin("patch.yaml", 4)
    assert origin(("containers", 0, "image")) == Origin("base.yaml", 3)
    assert origin(("containers", 0, "name")) == Origin("patch.yaml", 2)
    assert origin(("containers", 1, "image")) == Origin("base.yaml", 13)


def test_a_list_without_keys_is_replaced():
    result = merge("containers: [{name: main, args: [three]}]\n")
    assert result.body["containers"][0]["args"] == ["three"]


def test_sets_are_united():
    assert merge("modes: [x, w]\n").body["modes"] == ["r", "x", "w"]


def test_values_of_a_map_have_the_shape_too():
    result = merge("services: {decode: {env: [{name: B, value: x}]}, new: {env: [{name: C}]}}\n")
    assert names(result.body["services"]["decode"]["env"]) == ["A", "B"]
    assert result.body["services"]["new"] == {"env": [{"name": "C"}]}


def test_null_removes_a_key_of_an_item_and_the_whole_list_but_no_item():
    result = merge("containers:\n- name: main\n  env: null\n  image: null\nmodes: null\n")
    assert result.body["containers"][0] == {
        "name": "main",
        "args": ["one", "two"],
        "ports": [{"containerPort": 80}],
    }
    assert "modes" not in result.body
    assert len(result.body["containers"]) == 2


def test_an_empty_list_changes_nothing_where_there_is_one_and_is_one_where_there_is_none():
    result = merge("containers: []\nservices: {new: {env: []}}\n")
    assert names(result.body["containers"]) == ["main", "side"]
    assert result.body["services"]["new"] == {"env": []}
    assert result.overridden == ()


def test_p01_nulls_in_a_new_item_are_no_values():
    result = merge("containers: [{name: new, image: null, env: [{name: A, value: null}]}]\n")
    assert result.body["containers"][2] == {"name": "new", "env": [{"name": "A"}]}


def test_s03_a_key_that_is_left_out_has_its_default():
    text = "containers: [{name: main, ports: [{containerPort: 80, protocol: TCP, name: http}]}]\n"
    assert merge(text).body["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "name": "http"}]
    text = "containers: [{name: main, ports: [{containerPort: 80, protocol: UDP}]}]\n"
    assert merge(text).body["containers"][0]["ports"] == [
        {"containerPort": 80},
        {"containerPort": 80, "protocol": "UDP"},
    ]


def test_keys_are_equal_as_json():
    shape = Shape({"l": Shape(kind=ListKind.MAP, keys=("k",))})
    result = merge("l: [{k: '1'}, {k: true}]\n", "l: [{k: 1}]\n", shape)
    assert result.body == {"l": [{"k": 1}, {"k": "1"}, {"k": True}]}


def test_p16_a_list_over_something_else_replaces_it():
    result = merge("modes: [a]\n", "modes: text\n")
    assert result.body == {"modes": ["a"]}
    assert [f.code for f in override_findings(result.overridden)] == [codes.TYPE_CHANGED]
    assert merge("modes: text\n", "modes: [a]\n").body == {"modes": "text"}


# -- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "base", "place", "words"),
    [
        ("containers:\n- name: main\n- image: x\n", BASE, "patch.yaml:3", "containers[1] has no name"),
        ("containers:\n- main\n", BASE, "patch.yaml:2", "containers[0] has no name"),
        ("containers:\n- {name: null}\n", BASE, "patch.yaml:2", "containers[0] has no name"),
        ("containers:\n- {name: [a]}\n", BASE, "patch.yaml:2", "containers[0] has no name"),
        ("modes:\n- a\n- [b]\n", BASE, "patch.yaml:3", "modes[1] is no text, number or truth value"),
        ("modes:\n- null\n", BASE, "patch.yaml:2", "modes[0] is no text, number or truth value"),
        ("containers: [{name: main}]\n", "containers:\n- image: x\n", "base.yaml:2", "containers[0] has no name"),
        (
            "containers:\n- name: main\n  ports:\n  - protocol: UDP\n",
            BASE,
            "patch.yaml:4",
            "containers[0].ports[0] has no containerPort, by",
        ),
        ("services:\n  new:\n    env:\n    - {}\n", BASE, "patch.yaml:4", "services.new.env[0] has no name"),
    ],
)
def test_an_item_without_its_key(patch, base, place, words):
    result = merge(patch, base)
    assert [(f.code, str(f.origin)) for f in result.findings] == [(codes.ITEM_WITHOUT_KEY, place)]
    assert words in result.findings[0].message
    assert result.body == document(base, "base.yaml").body


@pytest.mark.parametrize(
    ("patch", "base", "place", "words"),
    [
        ("containers:\n- name: new\n- name: new\n", BASE, "patch.yaml:3", "containers[1] has the same name as item 0"),
        (
            "containers: [{name: a}]\n",
            "containers:\n- name: x\n- name: x\n",
            "base.yaml:3",
            "containers[1] has the same",
        ),
        (
            "containers:\n- name: main\n  ports:\n  - {containerPort: 1}\n  - {containerPort: 1, protocol: TCP}\n",
            BASE,
            "patch.yaml:5",
            "containers[0].ports[1] has the same containerPort and protocol as item 0",
        ),
        ("modes:\n- a\n- b\n- a\n", BASE, "patch.yaml:4", "modes[2] has the value of item 0"),
    ],
)
def test_s02_two_items_with_one_key(patch, base, place, words):
    result = merge(patch, base)
    assert [(f.code, str(f.origin)) for f in result.findings] == [(codes.EQUAL_ITEMS, place)]
    assert words in result.findings[0].message
    assert result.body == document(base, "base.yaml").body


def test_many_bad_items_are_not_all_told():
    result = merge("containers: [" + "{}, " * 50 + "]\n")
    assert len(result.findings) == 10


def test_without_a_schema_no_list_is_merged_or_replaced():
    result = merge("containers:\n- name: main\nservices:\n  new:\n    env: []\nplain: {x: 1}\n", shape=None)
    assert [(f.code, f.origin.line, f.path) for f in result.findings] == [
        (codes.NO_SCHEMA, 1, ("containers",)),
        (codes.NO_SCHEMA, 5, ("services", "new", "env")),
    ]
    assert result.body == document(BASE, "base.yaml").body


def test_without_a_schema_a_patch_without_lists_is_merged():
    result = merge("services: {decode: {image: x}}\nmodes: null\n", shape=None)
    assert result.findings == ()
    assert result.body["services"]["decode"]["image"] == "x"


# -- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "patch", "order"),
    [
        ("abc", "", "abc"),
        ("", "ab", "ab"),
        ("abc", "b", "abc"),
        ("abc", "xb", "axbc"),
        ("abc", "bx", "abcx"),
        ("abc", "cb", "acb"),
        ("abc", "ba", "bca"),
        ("abc", "bax", "bcax"),
        ("abcd", "cax", "bcdax"),
        ("abc", "xyz", "abcxyz"),
        ("abc", "cxa", "bcxa"),
        ("abcd", "dxby", "acdxby"),
    ],
)
def test_order(base, patch, order):
    as_keys = [[letter.encode() for letter in text] for text in (base, patch)]
    assert b"".join(merged_order(*as_keys)).decode() == order


@pytest.mark.parametrize("patch", ["".join(p) for n in range(4) for p in itertools.permutations("abxy", n)])
def test_items_of_the_patch_keep_its_order_and_items_of_the_base_alone_theirs(patch):
    base = "abcd"
    order = b"".join(merged_order([c.encode() for c in base], [c.encode() for c in patch])).decode()
    assert sorted(order) == sorted(set(base) | set(patch))
    assert [c for c in order if c in patch] == list(patch)
    assert [c for c in order if c not in patch] == [c for c in base if c not in patch]
