"""Text of others in Markdown stays text: rendered, it reads as it was, and nothing of it is live."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gitops.readiness.texts import one_line, printable
from gitops.report.markdown import code, inert

PART = "\u200b"
NASTY = st.text(
    alphabet=st.one_of(
        st.sampled_from("\\`*_[]()#~!|<>&@$:/.-+=\"'{}\n\r\t \u200b\u202e\ud7ff0w1H"), st.characters(codec="utf-8")
    ),
    max_size=120,
)
LIVE = re.compile(r"://|www\.|@\w|#\w|!\w|GH-\d", re.IGNORECASE)


class Text(HTMLParser):
    """Tags and text of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def rendered(markdown: str) -> Text:
    return Text(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown))


@given(NASTY)
@example("[x](http://evil.example) <img src=x onerror=alert(1)> @team `rm` | ~~~")
@example("```\n# title\n- [ ] task")
@example("![x](y) &lt; &#64; \\| \\\\|")
@example("a|b\\|c\\\\|d")
@example("www.evil.example _www.evil.example #12 !3 GH-4 $x$ user@host.example")
def test_in_a_table_it_is_one_cell_that_reads_as_it_was(text: str) -> None:
    row = f"| a | {inert(text)} | b |"
    assert not re.search(r"[\r\n<>]", row)
    assert row.count("|") == 4
    page = rendered(f"| x | y | z |\n|---|---|---|\n{row}\n")
    assert page.tags == ["table", "thead", "tr", "th", "th", "th", "tbody", "tr", "td", "td", "td"]
    assert not LIVE.search(page.text)
    assert printable(one_line(text)).strip() in page.text.replace(PART, "")


@given(NASTY)
def test_in_a_list_it_is_text(text: str) -> None:
    page = rendered(f"- a: {inert(text)}\n")
    assert page.tags == ["ul", "li"]
    assert not LIVE.search(page.text)


@given(NASTY)
def test_between_backticks_it_ends_neither_the_code_nor_the_cell(text: str) -> None:
    shown = code(text)
    page = rendered(f"| x |\n|---|\n| `{shown}:3` |\n")
    assert page.tags == ["table", "thead", "tr", "th", "tbody", "tr", "td", "code"]
    assert shown.strip() in page.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("functions/llama-chat/deployment.yaml", "functions/llama-chat/deployment.yaml"),
        ("clusters/dgx a.yaml", "clusters/dgx a.yaml"),
        ("überall/名前.yaml", "überall/名前.yaml"),
        ("a`|<@>\n.yaml", "a??????.yaml"),
        ("", "?"),
    ],
)
def test_paths_stay_readable(text: str, shown: str) -> None:
    assert code(text) == shown


def test_credentials_are_masked_and_length_is_bounded() -> None:
    assert inert("nvapi-" + "k" * 60) == "\\*\\*\\*"
    assert len(inert("a " * 5000)) <= 300
