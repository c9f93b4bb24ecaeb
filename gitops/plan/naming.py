"""Names that the reconciler makes: instance namespaces. Total, deterministic and free of collisions.

A workload's name may hold capitals and underscores (NVCF's rule), a namespace may not (RFC 1123), and two names may
differ only in case (cases.md G15) or agree in their first 60 characters (R14). Where the readable form says less than
the name, a hash of the name is added.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

PREFIX = "fn-"
LIMIT = 63
HASH_DIGITS = 10

_PLAIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")


def instance_namespace(function: str, spec_id: str, index: int) -> str:
    """`fn-<name>-<spec id>-<index>`; with `-x` and ten digits of a hash where that would be too long or ambiguous.

    It is ambiguous when the name is not its own readable form, or when the spec id holds a hyphen (`a-b` + `c` and
    `a` + `b-c` would meet). A plain name ends in the index, so it never looks like a hashed one.
    """
    plain = f"{PREFIX}{function}-{spec_id}-{index}"
    if len(plain) <= LIMIT and _PLAIN.match(function) and "-" not in spec_id:
        return plain
    identity = f"{function}\0{spec_id}\0{index}"
    mark = f"-x{hashlib.sha256(identity.encode()).hexdigest()[:HASH_DIGITS]}"
    readable = re.sub(r"[^a-z0-9]+", "-", plain.lower())[: LIMIT - len(mark)].strip("-")
    return readable + mark


def is_instance_namespace(name: str) -> bool:
    """Whether a namespace is in the range that instances are given; nothing else may be declared there."""
    return name.startswith(PREFIX)


OURS = frozenset({"gitops-system", "gitops-secrets", "gitops-preflight"})
"""Namespaces on every target that belong to the reconciler."""


def refused_for_function(namespace: str) -> bool:
    """Whether a function may not take a namespace as its own: it would label it, and delete it in the end."""
    return namespace in OURS or namespace == "default" or namespace.startswith(("kube-", PREFIX))


def folded(path: str) -> str:
    """A path as a case-folding, normalising file system sees it: equal results collide there (cases.md G15)."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())
