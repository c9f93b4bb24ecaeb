"""How findings look on a terminal: the mark is under what it means, and lines with secrets are not shown."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from gitops.cli.reference import load_codes
from gitops.cli.terminal import print_findings
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.report.findings import summary

load_codes()


def shown(text: str, *findings: Finding) -> list[str]:
    out = Console(file=io.StringIO(), width=1000, markup=False, highlight=False, emoji=False)
    print_findings(findings, lambda _: text.encode(), out)
    return out.file.getvalue().splitlines()


def about(line: int, *path: str | int) -> Finding:
    return finding("GO2004", "wrong", Origin("a.yaml", line), path=path)


@pytest.mark.parametrize(
    ("line", "path", "marked"),
    [
        ("  name: x", ("name",), "name"),
        ("  username: name", ("username",), "username"),
        ("  {username: a, name: b}", ("name",), "name"),
        ("  app.example/name: a", ("name",), "app.example/name: a"),
        ('  "name" : x', ("name",), '"name"'),
        ("  - --name=x", ("args", "name", 0), "- --name=x"),
        ("  args: [a, b]", ("args", 1), "args"),
        ("\tname: x", ("name",), "name"),
        ("名前: 値 # name:", ("名前",), "名前"),
        ("  {値: 名前名前, name: b}", ("name",), "name"),
        ("  e\u0301e\u0301: {name: b}", ("name",), "name"),
        ("  text: \u202e\x07 {name: b}", ("name",), "name"),
        ("  a.b*c: 1", ("a.b*c",), "a.b*c"),
        ("  name: x   ", (), "name: x"),
        ("  name: x\r", (), "name: x"),
    ],
)
def test_the_mark_is_under_what_it_means(line: str, path: tuple[str | int, ...], marked: str) -> None:
    _, source, mark, _ = shown(f"{line}\nmore: 1\n", about(1, *path))
    before, carets = mark[: mark.index("^")], mark[mark.index("^") :]
    start = next(n for n in range(len(source) + 1) if cell_len(source[:n]) == cell_len(before))
    while source[start : start + 1] == "\u0301":
        start += 1
    assert source[start:].startswith(marked)
    assert carets == "^" * cell_len(marked)


def test_a_byte_order_mark_at_the_beginning_takes_no_column() -> None:
    _, source, mark, _ = shown("\ufeffname: x\n", about(1, "name"))
    assert (source, mark) == ("    1 | name: x", "      | ^^^^")


def test_a_line_that_is_not_there_is_not_shown() -> None:
    assert shown("a: 1\n", about(7))[0] == "a.yaml:7: error GO2004: wrong"
    assert len(shown("a: 1\n", about(7))) == 2


@pytest.mark.parametrize(
    "text",
    [
        "kind: Secret\nstringData:\n  password: hunter2\n  password: hunter2\n",
        "kind: List\nitems:\n- {'kind' : \"Secret\", data:\n  {password: hunter2}}\n",
        '{"kind":\n"Secret", "data":\n{"password": "hunter2"}, "x":\n"hunter2"}\n',
        "kind: ConfigMap\ndata:\n  key: |\n    -----BEGIN RSA PRIVATE KEY-----\n    hunter2\n",
    ],
)
def test_no_line_of_a_file_with_a_secret_is_shown(text: str) -> None:
    out = "\n".join(shown(text, *(about(line) for line in range(1, 6))))
    assert "hunter2" not in out
    assert out.count("error GO2004") == 5


def test_no_line_of_a_file_with_a_credential_is_shown_however_it_is_written() -> None:
    escaped = f'data:\n  key: "nvapi\\x2d{"k" * 60}"\n  key: 1\n'
    found = finding("GO4202", "data.key looks like an NGC API key", Origin("a.yaml", 2))
    assert len(shown(escaped, about(2))) == 4, "the text alone does not tell"
    assert not any("kkk" in line for line in shown(escaped, about(2), found))


def test_a_file_that_is_no_text_is_not_shown() -> None:
    out = Console(file=io.StringIO(), width=1000)
    print_findings([about(1)], lambda _: "kind: Secret".encode("utf-16"), out)
    assert len(out.file.getvalue().splitlines()) == 2


@pytest.mark.parametrize("kind", ["SealedSecret", "SecretStore", "ConfigMap"])
def test_lines_of_other_files_are_shown(kind: str) -> None:
    assert shown(f"kind: {kind}\n", about(1))[1] == f"    1 | kind: {kind}"


def test_a_hint_of_others_cannot_command_a_terminal() -> None:
    made = finding("GO2004", "m", Origin("a.yaml"), hint="x\x1b[31m\n::error::y")
    assert shown("", made)[1] == "   hint: x\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}::error::y"


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        ([], "no findings"),
        (["GO2004"], "1 error"),
        (["GO2004", "GO2004", "GO2106"], "2 errors, 1 warning"),
        (["GO2010", "GO2010"], "2 info"),
    ],
)
def test_summary(codes: list[str], words: str) -> None:
    assert summary(finding(code, "m", Origin("a")) for code in codes) == words
