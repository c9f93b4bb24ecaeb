"""From bytes to text for YAML, and libyaml's errors to findings with a line that the author's editor shows."""

from __future__ import annotations

import codecs
import re
from typing import NoReturn

from yaml import YAMLError
from yaml.error import MarkedYAMLError
from yaml.reader import ReaderError

from gitops.manifests import codes
from gitops.manifests.file_state import FileState, UnreadableError

_WIDE_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BARE_RETURN = re.compile(r"\r(?!\n)")


def text_of(data: bytes, state: FileState) -> str:
    """The text of a file, its leading byte order mark removed. Raises UnreadableError after recording why."""
    if len(data) > state.limits.file_bytes:
        _stop(state, codes.FILE_TOO_LARGE, f"{len(data)} bytes, more than {state.limits.file_bytes}")
    if data.startswith(_WIDE_MARKS) or b"\0" in data[:4]:
        _stop(state, codes.NOT_UTF8, "the file is UTF-16 or UTF-32, or not text at all", line=1)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _stop(state, codes.NOT_UTF8, f"byte 0x{data[error.start]:02x} is not UTF-8", line=line)
    text = text.removeprefix("\ufeff")
    if (at := text.find("\ufeff")) >= 0:
        line, column = _place(text, at)
        _stop(state, codes.STRAY_MARK, f"a byte order mark (U+FEFF) at column {column}", line=line)
    if found := _BARE_RETURN.search(text):
        line, column = _place(text, found.start())
        _stop(state, codes.BARE_RETURN, f"a carriage return without a line feed at column {column}", line=line)
    return text


def report_syntax(error: YAMLError, text: str, state: FileState) -> None:
    """Record libyaml's error. Its message names the problem and never quotes the file's content."""
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        at = mark.index if mark is not None else len(text)
        problem = ": ".join(part for part in (error.context, error.problem) if part)
    elif isinstance(error, ReaderError):
        before = text.encode()[: error.position]  # libyaml counts bytes here, characters everywhere else
        at, problem = len(before.decode("utf-8", "ignore")), str(error.reason)
    else:
        at, problem = 0, "not YAML"
    line, column = _place(text, min(at, len(text) - 1))  # never a line after the last
    if isinstance(error, MarkedYAMLError) and error.context and error.context_mark is not None:
        begun, _ = _place(text, error.context_mark.index)
        problem += f" (begun on line {begun})" if begun < line else ""
    if text[at : at + 1] == "\t":
        state.add(codes.TAB, f"a tab character at column {column}: {problem}", line=line)
        return
    if "{{" in text and "}}" in text:
        problem += " (the file looks like a template, `{{ … }}`, which must be rendered first)"
    state.add(codes.SYNTAX, f"column {column}: {problem}", line=line)


def _place(text: str, at: int) -> tuple[int, int]:
    """Line and column, both from 1."""
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


def _stop(state: FileState, code: str, message: str, *, line: int = 0) -> NoReturn:
    state.add(code, message, line=line)
    raise UnreadableError
