"""What may be told when the API server refuses a Secret: never its values, whatever the answer quotes."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import replace

from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.values import MASK
from gitops.plan.units import DesiredObject, Stage

_DENIED = re.compile(r".*?denied (?:the )?request")

SHORTEST = 4
"""Characters of a value from which on it is looked for; shorter ones are in every sentence."""


def about_secret(desired: DesiredObject, error: ApiError) -> ApiError:
    """The error of an apply without the values of the Secret, and, for a copy that cannot follow its source, with what
    helps. Who denied it is told and not in which words: a policy may quote parts of what it saw, in any form. The copy
    is not deleted and made anew here: what is declared is never deleted, not even for a moment."""
    hidden = sorted(set(_values(desired)), key=len, reverse=True)

    def clean(text: str) -> str:
        for value in hidden:
            text = text.replace(value, MASK)
        return text

    said = _DENIED.match(error.message) if error.cls is ErrorClass.DENIED else None
    message = said[0] if said is not None else clean(error.message)
    if desired.stage is Stage.SECRETS and error.cls is ErrorClass.REFUSED and "immutable" in message:
        message = (
            f"the copy cannot follow its source, which was made anew as what no Secret may become ({message}); "
            f"delete {desired.ref}, and it is made from the source"
        )
    causes = tuple(replace(cause, message=clean(cause.message)) for cause in error.causes)
    return replace(error, message=message, causes=causes, waits_for=clean(error.waits_for))


def _values(desired: DesiredObject) -> Iterator[str]:
    """Values as they are sent and as they are meant, whole and line by line: a message is one line."""
    data = desired.body.get("data")
    for value in data.values() if isinstance(data, dict) else ():
        if not isinstance(value, str):
            continue
        yield from _long(value)
        try:
            text = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, ValueError):
            continue
        for part in (text, *text.splitlines()):
            yield from _long(part.strip())


def _long(text: str) -> Iterator[str]:
    if len(text) >= SHORTEST:
        yield text
