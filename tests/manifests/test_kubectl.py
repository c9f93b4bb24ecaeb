"""The reader against kubectl itself, form by form. Whole files in all styles: test_differential.py."""

import random
from pathlib import Path

import pytest
from yaml_kit import kubectl

from gitops.manifests import scalars
from gitops.manifests.canonical import same_json
from gitops.manifests.reading import read_documents

pytestmark = pytest.mark.skipif(kubectl.PROGRAM is None, reason="NOT CHECKED against kubectl: there is no kubectl")

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
OBJECT = "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}"

WORDS = (Path(__file__).parent / "scalars.txt").read_text(encoding="utf-8").split()

DOCUMENTS = [
    "a: !!str 1\nb: '1'\nc: \"\\u00e9\\x41\"\nd: 'it''s'\n",
    "a: |\n  one\n  two\n\nb: >\n  one\n  two\n\n  three\nc: |-\n  x\nd: |+\n  x\n\ne: >2\n   x\n",
    "base: &base {image: a, args: [x], deep: {one: 1}}\nm: {<<: *base, image: b}\n",
    "a: &a {x: 1}\nb: &b {x: 2, w: 2}\nm: {<<: [*a, *b], z: 3}\n",
    "b: &base {image: a}\nm: {name: c, <<: *base}\n",
    "a:\t1\nb: 2\t\nc: [1,\t2]\n",
    "a: &x [1, {b: c}]\nd: *x\ne: {f: *x}\n",
    "a:\nb: ~\nc: ''\nd: []\ne: {}\n",
    "a: multi\n  line\n  text\nb: 'q\n  r'\n",
    'é: ü\n"k\\tk": 1\n? simple\n: 1\n',
    "a: [1, 2.50, 0x10, yes, null, text, '']\n",
    "a: b # comment\nc: d#not\n",
    "list:\n- x: 1\n- - 2\n  - 3\n-\n  - 4\n",
    'a: "x\x85y"\nb: "\u2028"\nc: |\n  x\u2029  z\nd: "\\N\\L\\_"\n',
    'a: "p\r\n  q"\r\nb: |\r\n  r\r\n',
    "a: !!str\nb: !!str ~\n!!str c: !!str true\n",
    "a: |\n  ---\nb: 'x\n\n\n  z'\n",
    '&k a: 1\nb: *k\n"c" : 1\n',
    "a: :x\nb: x:z\nc: x,z\nd: http://x/z?q=[1]\n",
    "a: <<\nb: [<<, c]\n",
    "a: [-0.0, 0.0, -0, 1e3, 1E400, 1e-400, 0b-101, 1.2345678901234567e18, 1.5e-300]\n",
    "a: |\n  no line feed at the end",
    "a: >+\n  no line feed at the end\n ",
    "a: &x {b: &x 1}\nc: *x\n",
    "a: {? f : 1, g: [? h, ?h]}\nb: \\/\nc: '\\/'\nd: \"\\\\/\"\n",
    "a: 1\n--- # c\n" + HEAD.replace("a}", "b}") + "...\n---\t\n# nothing\n---\nnull\n---\n",
]
JSON = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "v": %s}'
JSON_VALUES = [
    r'["\/", "\ud83d\ude00", "\\/\\ud83d", "\u2028\u0085\u007f"]',
    '["x \x85 y", "\u2028\u2029 ", "\x7f\x80\ufffe"]',
    '[1.0, 1E2, -0, -0.0, 0.1e-6, 1e-400, 1.2345678901234567e18, "1e400"]',
    '{"<<": {"a": 1}, "on": "yes", "1": null}}\n---\n' + HEAD.replace("a}", "b}") + 'v: "\u2028"\n#',
]
LISTS = [
    f"apiVersion: v1\nkind: List\nitems:\n- {OBJECT % 'a'}\n- {OBJECT % 'b'}\n",
    "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: a}\n- {apiVersion: v1, kind: X, metadata: {}}\n",
    "apiVersion: v1\nkind: List\nitems:\n",
    "apiVersion: v1\nkind: ConfigMapList\nmetadata: {}\nitems: []\n",
    "apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: a}\nentries: [1]\n",
]
REFUSED = [
    # what libyaml accepts, see gitops/manifests/dialect.py
    HEAD + "--- {b: 1}\n",
    HEAD + "---\n# nothing\n...\n",
    "--- " + OBJECT % "a",
    HEAD + "a: 'x\n---z'\n",
    HEAD + "a: [http://x?y=1]\n",
    HEAD + 'a: "\\/"\n',
    "%TAG ! tag:yaml.org,2002:\n---\n" + HEAD + "a: !str 1\n",
    JSON % "1e400",
    JSON % "1" + "\n...\n",
    # what this reader alone could let through
    HEAD + "a: &a {x: 1}\nl: &l [*a]\nm: {<<: *l}\n",
    HEAD + "base: &b [" + "x, " * 400 + "]\nmany: [" + "*b, " * 400 + "]\n",
    HEAD + "base: &b [" + "x, " * 400 + "]\nmany: [" + "*b, " * 400 + "]\nplain: [" + "x, " * 9_000 + "]\n",
    HEAD + "a: &a {<<: *a}\n",
    f"apiVersion: v1\nitems: [{OBJECT % 'a'}]\n",
    "apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: a}\nitems: [x]\n",
    "apiVersion: example.com/v1\nkind: Playlist\nmetadata: {name: a}\nitems: {x: 1}\n",
]


def generated(seed: int, count: int) -> list[str]:
    chooser = random.Random(seed)
    letters = "0012345678901_._-+eExXoObBaAfF:"
    found = ("".join(chooser.choice(letters) for _ in range(chooser.randint(1, 9))) for _ in range(count))
    return [s for s in found if not s.endswith(":") and s not in ("-", "---", "...")]


@pytest.mark.parametrize("seed", [1, 2])
def test_scalars_are_typed_as_by_kubectl(seed):
    lines = []
    for position, text in enumerate(WORDS + generated(seed, 5_000)):
        try:
            scalars.resolve(text)
        except scalars.RefusedScalar:
            continue
        lines.append(f"k{position}: {text}\n")
    text = (HEAD + "".join(lines)).encode()
    (document,) = read_documents(text, file="x.yaml").documents
    (theirs,) = kubectl.read_one(text).objects
    differing = {k: (v, theirs.get(k)) for k, v in document.body.items() if repr(v) != repr(theirs.get(k))}
    assert differing == {}
    assert len(document.body) == len(theirs) > 4_500


@pytest.mark.parametrize("text", [*(HEAD + text for text in DOCUMENTS), *(JSON % v for v in JSON_VALUES), *LISTS])
def test_documents_are_read_as_by_kubectl(text):
    result, theirs = read_documents(text.encode(), file="x.yaml"), kubectl.read_one(text.encode())
    assert (result.findings, theirs.refused) == ((), "")
    assert same_json([kubectl.comparable(d.body) for d in result.documents], theirs.objects)


@pytest.mark.parametrize("text", REFUSED)
def test_what_kubectl_refuses_is_refused(text):
    assert kubectl.read_one(text.encode()).refused
    assert not read_documents(text.encode(), file="x.yaml").complete


@pytest.mark.parametrize(
    ("text", "theirs"),
    [
        pytest.param("b: &b {i: a}\nm: {i: b, <<: *b}\n", {"b": {"i": "a"}, "m": {"i": "a"}}, id="y11-merge-wins"),
        pytest.param("a: 1\na: 2\n", {"a": 2}, id="y08-last-key-wins"),
        pytest.param("a: 1\n...\na: 2\n", {"a": 1}, id="end-mark-hides-the-rest"),
        pytest.param("a: !x 08\n", {"a": "08"}, id="y18-tags-are-dropped"),
        pytest.param("on: 08\n", {"true": 8}, id="y02-y03-words-and-zeros"),
    ],
)
def test_what_kubectl_makes_of_texts_that_are_refused(text, theirs):
    (found,) = kubectl.read_one((HEAD + text).encode()).objects
    assert {k: v for k, v in found.items() if k not in ("apiVersion", "kind", "metadata")} == theirs
    assert not read_documents((HEAD + text).encode(), file="x.yaml").complete


def test_y17_kubectl_applies_the_items_of_any_kind_in_its_place():
    text = f"apiVersion: example.com/v1\nkind: Playlist\nmetadata: {{name: p}}\nitems: [{OBJECT % 'a'}]\n".encode()
    (found,) = kubectl.read_one(text).objects
    assert found["kind"] == "ConfigMap"
    assert not read_documents(text, file="x.yaml").complete


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"apiVersion: v1\nkind: List\nitems: [{{kind: List, items: [{OBJECT % 'a'}]}}]", id="y17-nested"),
        pytest.param(f"%YAML 1.2\n---\n{HEAD}", id="y24-directive"),
        pytest.param(f"%YAML 1.1\n---\n{HEAD}", id="y24-directive-of-the-right-version"),
    ],
)
def test_what_is_read_although_kubectl_refuses_it(text):
    assert kubectl.read_one(text.encode()).refused
    (document,) = read_documents(text.encode(), file="x.yaml").documents
    assert document.body == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
