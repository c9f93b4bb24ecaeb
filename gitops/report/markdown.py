"""Text of others in Markdown: it stays text, whatever it holds.

Forges render what we write (the README of the status branch, a comment on a pull request) and act on it: they link,
load images, mention people and refer to issues. Whatever could mean something to them is escaped; where they look for
it in the rendered text (GitHub Flavored Markdown, "Autolinks"; mentions; issues), a zero-width space parts it.
"""

from __future__ import annotations

import re

from gitops.readiness.texts import LIMIT, one_line, printable

_SPECIAL = re.compile(r"([\\`*_\[\]#~!])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "$": "&#36;"}
_LIVE = re.compile(r"://|@|[#!](?=\w)|www\.|GH-(?=\d)", re.IGNORECASE)
_PART = "\u200b"
_CODE_LIMIT = 200


def inert(text: str, limit: int = LIMIT) -> str:
    """`text` on one line without effect: no links, no HTML, no mention of people or issues, no end of a table's cell.
    At most `limit` characters before escaping; credentials become `***`."""
    parted = _LIVE.sub(lambda found: found[0][0] + _PART + found[0][1:], printable(one_line(text, limit)))
    escaped = _SPECIAL.sub(r"\\\1", parted)
    return "".join(_ENTITIES.get(character, character) for character in escaped)


def code(text: str) -> str:
    """What may stand between two backticks, also in a table: anything doubtful becomes `?`."""
    return re.sub(r"[^\w ./+:,=-]", "?", text)[:_CODE_LIMIT] or "?"
