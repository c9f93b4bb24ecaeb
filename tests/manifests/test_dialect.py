"""Where kubectl reads a text otherwise than YAML says, or refuses it; test_kubectl.py checks that it really does."""

import pytest

from gitops.manifests import codes
from gitops.manifests.reading import ReadResult, read_documents


def read(text: str) -> ReadResult:
    return read_documents(text.encode(), file="a.yaml")


def body(text: str):
    result = read(text)
    assert result.complete, result.findings
    (document,) = result.documents
    return document.body


def refused(text: str) -> list[str]:
    """Codes of the errors; the document or the file must be lost."""
    result = read(text)
    assert not result.complete
    return [f.code for f in result.findings if f.severity == "error"]


# -- what YAML allows and kubectl refuses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("a: 1\n--- {b: 1}\n", 2, id="flow"),
        pytest.param("--- text\n", 1, id="first-line"),
        pytest.param("a: 1\n---  !!map\nb: 1\n", 2, id="tag"),
        pytest.param("a: 1\n---#c\nb: 1\n", 2, id="comment-without-a-blank"),
        pytest.param('a: "x\n---z"\n', 2, id="inside-a-text"),
        pytest.param("a: 1\n---\xa0\nb: 1\n", 2, id="odd-blank"),
        pytest.param("a: 1\x85---\nb: 1\n", 1, id="next-line-character"),
        pytest.param("a: |\n  x\u2028--- \nb: 1\n", 2, id="line-separator"),
    ],
)
def test_document_separators_that_kubectl_does_not_take(text, line):
    result = read(text)
    assert [(f.code, f.origin.line) for f in result.findings] == [(codes.KUBECTL_REFUSES, line)]
    assert not result.readable


@pytest.mark.parametrize(("text", "line"), [("a: 1\n---\n...\n---\nb: 1\n", 2), ("a: 1\n---\n# c\n...\n", 2)])
def test_an_end_mark_with_nothing_before_it(text, line):
    result = read(text)
    assert [(f.code, f.origin.line) for f in result.findings] == [(codes.KUBECTL_REFUSES, line)]
    assert not result.readable


def test_end_marks_that_kubectl_takes():
    text = "a: 1\n...\n...\n---\n&x\n...\n---\n~\n...\n---\n''\n...\n---\nb: 1\n...\n# c\n"
    assert [d.body for d in read(text).documents] == [{"a": 1}, "", {"b": 1}]


def test_document_separators_that_kubectl_takes():
    text = "# c\n--- # c\na: 1\n---\t\nb: ----\n---\r\nc: x --- z\n...\n---   \n"
    assert [d.body for d in read(text).documents] == [{"a": 1}, {"b": "----"}, {"c": "x --- z"}]


def test_what_follows_an_end_mark_is_never_dropped_as_kubectl_does():
    assert refused("kind: A\n...\nkind: B\n") == [codes.SYNTAX]


@pytest.mark.parametrize(
    "text", [r'a: "\/"', r'{"\/": 1, b: x}', r'a: "\\\/"', "a:\n- 'x'\n- \"z\n  \\/\"", '"\\/" : 1']
)
def test_the_slash_escape_is_unknown_to_kubectl_in_yaml(text):
    assert refused(text) == [codes.KUBECTL_REFUSES]


def test_what_only_looks_like_the_slash_escape():
    text = "a: \\/\nb: '\\/'\nc: \"\\\\/\"\nd: |\n  \\/\n# \\/\n"
    assert body(text) == {"a": "\\/", "b": "\\/", "c": "\\/", "d": "\\/\n"}


@pytest.mark.parametrize("text", ["a: [http://x?y=1]", "a: [x?]", "{b?: 1}", "a: {b: [c, d e?]}"])
def test_a_question_mark_in_a_flow_collection_ends_the_text_for_kubectl(text):
    assert refused(text) == [codes.KUBECTL_REFUSES]


def test_question_marks_elsewhere():
    text = "a: http://x?y=1\nb: ['?', \"x?\"]\n? c?\n: d?\ne: {? f : 1, g: [? h, ?h]}\ni: ?j\n"
    value = {
        "a": "http://x?y=1",
        "b": ["?", "x?"],
        "c?": "d?",
        "e": {"f": 1, "g": [{"h": None}, {"h": None}]},
        "i": "?j",
    }
    assert body(text) == value


# -- JSON, which kubectl does not read as YAML -----------------------------------------------------------------------


def test_escapes_of_json():
    text = r'{"a": "\/\ud83d\ude00\\\/\u2028", "b\/": ["\\ud83d\\ude00"]}'
    assert body(text) == {"a": "/😀\\/\u2028", "b/": [r"\ud83d\ude00"]}


def test_characters_that_are_line_breaks_or_forbidden_in_yaml_only():
    text = '{"a": "x \x85 y\u2028\u2029 ", "b": "\x7f\x80\ufffe"}'
    assert body(text) == {"a": "x \x85 y\u2028\u2029 ", "b": "\x7f\x80\ufffe"}


def test_json_before_yaml():
    text = '\n{"a": "\\/"}\n---\nb: "\u2028"\n'
    assert [d.body for d in read(text).documents] == [{"a": "/"}, {"b": "\u2028"}]
    assert refused('{"a": 1}\n---\nb: "\\/"\n') == [codes.KUBECTL_REFUSES]


def test_json_has_no_end_mark():
    assert refused('{"a": 1}\n...\n') == [codes.KUBECTL_REFUSES]
    assert body("{a: 1}\n...\n") == body('{"a": 1}\n# c\n---\n') == {"a": 1}


def test_y07_a_number_beyond_floats_is_text_in_yaml_and_an_error_in_json():
    assert body("{a: 1e400}") == {"a": "1e400"}
    result = read('{"a": 1,\n "b": 1e400}')
    assert [(f.code, f.origin.line) for f in result.findings] == [(codes.NUMBER_TOO_LARGE, 2)]
    assert refused('{"a": 1' + "0" * 400 + ".0}") == [codes.NUMBER_TOO_LARGE]


@pytest.mark.parametrize("text", [r'{"a": "\ud83d"}', '{"a": NaN, "b": "\\/"}', '{a: \'\\/\', "b": "\\/"}'])
def test_what_is_no_json_stays_yaml(text):
    assert not read(text).complete
