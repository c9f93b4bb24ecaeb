"""Bytes of a YAML file to documents: strict, with lines, and with findings instead of exceptions.

A value is read exactly as kubectl reads it, or refused. Two kinds of damage are told apart. An error inside a document
(a duplicate key) loses that document only: it is missing from `documents` and its number is in `lost`. An error of the
stream (syntax, encoding, a budget) makes the file unreadable: where documents begin is then a guess, so there are none.
In both cases whoever owns units that came from the file must hold them: see ReadResult.complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from yaml import CSafeLoader, YAMLError
from yaml.events import DocumentStartEvent, StreamEndEvent

from gitops.manifests import codes, encoding, lists
from gitops.manifests.building import DEFAULT_LIMITS, DocumentBuilder, FileState, Limits, UnreadableError, line_of
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
        for document, index in _documents(encoding.text_of(data, state), state):
            if document is None:
                lost.append(index)
            else:
                documents.extend(document)
    except UnreadableError:
        return ReadResult((), tuple(state.findings), readable=False)
    return ReadResult(tuple(documents), tuple(state.findings), readable=True, lost=tuple(lost))


def _documents(text: str, state: FileState) -> Iterator[tuple[list[RawDocument] | None, int]]:
    """The documents of a text with their numbers, in place of a refused one None."""
    loader = CSafeLoader(text)
    index = 0
    try:
        while True:
            event: Any = loader.get_event()
            if event is None or type(event) is StreamEndEvent:
                return
            if type(event) is not DocumentStartEvent:
                continue
            index += 1
            if event.version is not None:
                state.add(
                    codes.DIRECTIVE,
                    f"document {index}: the %YAML directive has no effect",
                    line=line_of(event),
                )
            builder = DocumentBuilder(state, loader.get_event, index)
            body = builder.build(loader.get_event())
            if builder.lost:
                yield None, index
            elif body is not None:
                lines = LineMap(pack(builder.lines), builder.line, texts=builder.texts or NO_TEXTS)
                raw = RawDocument(body, index, builder.line, lines, state.file)
                yield lists.flatten(raw, state), index
    except YAMLError as error:
        encoding.report_syntax(error, text, state)
        raise UnreadableError from error
    finally:
        loader.dispose()
