"""Bytes of a YAML file to documents: strict, with lines, and with findings instead of exceptions.

A value is read exactly as kubectl reads it, or refused. Two kinds of damage are told apart. An error inside a document
(a duplicate key) loses that document only: it is missing from `documents` and its number is in `lost`. An error of the
stream (syntax, encoding, a budget) makes the file unreadable: where documents begin is then a guess, so there are none.
In both cases whoever owns units that came from the file must hold them: see ReadResult.complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from yaml import CSafeLoader, YAMLError
from yaml.events import DocumentStartEvent, StreamEndEvent

from gitops.manifests import codes, dialect, encoding, lists
from gitops.manifests.building import DocumentBuilder, line_of
from gitops.manifests.file_state import DEFAULT_LIMITS, FileState, Limits, UnreadableError
from gitops.manifests.lines import NO_TEXTS, LineMap, pack
from gitops.manifests.raw import RawDocument
from gitops.model.findings import Finding


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What a file holds. With `readable` False there are no documents; `lost` are the numbers of refused ones."""

    documents: tuple[RawDocument, ...]
    findings: tuple[Finding, ...]
    readable: bool
    lost: tuple[int, ...] = ()

    @property
    def complete(self) -> bool:
        """Every document of the file is here. When False, nothing that once came from the file may be pruned."""
        return self.readable and not self.lost


def read_documents(data: bytes, *, file: str, limits: Limits = DEFAULT_LIMITS) -> ReadResult:
    """Read all documents of a file; `file` is its path for messages. Never raises for what the bytes hold.

    Empty documents are left out; `kind: List` is replaced by its items.
    """
    state = FileState(file, limits)
    documents: list[RawDocument] = []
    lost: list[int] = []
    try:
        text = dialect.as_kubectl_splits(encoding.text_of(data, state), state)
        state.note_breaks(text)
        for document, index in _documents(text, state):
            if document is None:
                lost.append(index)
            else:
                documents.extend(document)
    except UnreadableError:
        return ReadResult((), tuple(state.findings), readable=False)
    return ReadResult(tuple(documents), tuple(state.findings), readable=True, lost=tuple(lost))


def _documents(text: str, state: FileState) -> Iterator[tuple[list[RawDocument] | None, int]]:
    """What each document of a text holds, with its number; in place of a refused one None."""
    loader = CSafeLoader(text)
    doubtful = text if dialect.may_differ(text) else ""
    index = 0
    try:
        while True:
            event: Any = loader.get_event()
            if event is None or type(event) is StreamEndEvent:
                return
            if type(event) is DocumentStartEvent:
                index += 1
                builder = DocumentBuilder(state, loader.get_event, index, doubtful=doubtful)
                yield _read(event, builder, loader.get_event, state, index), index
    except YAMLError as error:
        encoding.report_syntax(error, text, state)
        raise UnreadableError from error
    finally:
        loader.dispose()


def _read(
    start: Any, builder: DocumentBuilder, next_event: Callable[[], Any], state: FileState, index: int
) -> list[RawDocument] | None:
    """The objects of the document that begins with an event; None when it is refused."""
    line = state.editor_line(line_of(start))
    if start.version is not None:
        state.add(codes.DIRECTIVE, f"document {index}: the %YAML directive has no effect", line=line)
    if start.tags:
        state.add(codes.TAG, f"document {index}: the %TAG directive is not supported", line=line)
    root = next_event()
    body = builder.build(root)
    if dialect.is_hollow(root, end=next_event()):
        state.add(codes.KUBECTL_REFUSES, f"document {index}: `...` with nothing before it", line=line)
        raise UnreadableError
    if builder.lost or start.tags:
        return None
    return [] if body is None else lists.flatten(_raw(body, builder, state, index), state)


def _raw(body: Any, builder: DocumentBuilder, state: FileState, index: int) -> RawDocument:
    lines, line = builder.lines, state.editor_line(builder.line)
    if state.odd_lines:
        lines = {path: state.editor_line(n) for path, n in lines.items()}
    return RawDocument(body, index, line, LineMap(pack(lines), line, texts=builder.texts or NO_TEXTS), state.file)
