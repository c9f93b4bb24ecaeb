"""The reader against kubectl itself, which converts YAML to JSON without a cluster: `kubectl label --local -o json`."""

import json
import random
import subprocess
from pathlib import Path

import pytest
from controlplane_kit import binaries

from gitops.manifests import scalars
from gitops.manifests.reading import read_documents

kubectl = binaries.kubectl()
pytestmark = pytest.mark.skipif(kubectl is None, reason="NOT CHECKED against kubectl: there is no kubectl")

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

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
    "a: b # comment\nc: 'd'# not\n".replace("'d'# not", "d#not"),
    "list:\n- x: 1\n- - 2\n  - 3\n-\n  - 4\n",
    'a: "x\x85y"\nb: "\u2028"\nc: |\n  x\u2029  z\nd: "\\N\\L\\_"\n',
    'a: "p\r\n  q"\r\nb: |\r\n  r\r\n',
    "a: !!str\nb: !!str ~\n!!str c: !!str true\n",
    "a: |\n  ---\nb: 'x\n\n\n  z'\n",
    '&k a: 1\nb: *k\n"c" : 1\n',
    "a: :x\nb: x:z\nc: x,z\nd: http://x/z?q=[1]\n",
    "a: <<\nb: [<<, c]\n",
]


def kubectl_reads(text: str, tmp_path: Path):
    """The document as kubectl sends it; None when kubectl refuses."""
    file = tmp_path / "x.yaml"
    file.write_text(text, encoding="utf-8")
    command = [str(kubectl), "label", "--local", "-f", str(file), "l=1", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        return None
    body = json.loads(done.stdout)
    assert body["metadata"].pop("labels") == {"l": "1"}
    return body


def generated(seed: int, count: int) -> list[str]:
    chooser = random.Random(seed)
    letters = "0012345678901_._-+eExXoObBaAfF:"
    found = ("".join(chooser.choice(letters) for _ in range(chooser.randint(1, 9))) for _ in range(count))
    return [s for s in found if not s.endswith(":") and s not in ("-", "---", "...")]


@pytest.mark.parametrize("seed", [1, 2])
def test_scalars_are_typed_as_by_kubectl(tmp_path, seed):
    lines = []
    for position, text in enumerate(WORDS + generated(seed, 3_000)):
        try:
            scalars.resolve(text)
        except scalars.RefusedScalar:
            continue
        lines.append(f"k{position}: {text}\n")
    text = HEAD + "".join(lines)
    (document,) = read_documents(text.encode(), file="x.yaml").documents
    theirs = kubectl_reads(text, tmp_path)
    assert theirs is not None
    differing = {k: (v, theirs.get(k)) for k, v in document.body.items() if repr(v) != repr(theirs.get(k))}
    assert differing == {}
    assert len(document.body) == len(theirs) > 2_500


@pytest.mark.parametrize("text", DOCUMENTS)
def test_documents_are_read_as_by_kubectl(tmp_path, text):
    result = read_documents((HEAD + text).encode(), file="x.yaml")
    assert result.complete, result.findings
    assert result.documents[0].body == kubectl_reads(HEAD + text, tmp_path)


def test_y12_aliases_that_kubectl_refuses_are_refused(tmp_path):
    text = HEAD + "base: &b [" + ", ".join(["x"] * 400) + "]\nmany: [" + ", ".join(["*b"] * 400) + "]\n"
    assert kubectl_reads(text, tmp_path) is None
    assert not read_documents(text.encode(), file="x.yaml").complete


def test_y11_kubectl_lets_a_later_merge_win_which_is_why_it_is_refused(tmp_path):
    text = HEAD + "base: &base {image: a}\nm: {image: b, <<: *base}\n"
    theirs = kubectl_reads(text, tmp_path)
    assert theirs is not None
    assert theirs["m"] == {"image": "a"}
    assert not read_documents(text.encode(), file="x.yaml").complete
