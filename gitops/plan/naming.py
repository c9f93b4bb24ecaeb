"""Names that the reconciler makes from names of workloads: namespaces, label values and file names.

A workload's name may hold capitals and underscores (NVCF's rule), a namespace may not (RFC 1123), a label value ends
after 63 characters, and some file systems fold case: two names may differ only in case (cases.md G15) or agree in their
first 60 characters (R14). So all three are total (every name has one), deterministic, and differ where the names do,
also when case is folded: where the readable form says less than the name, a digest of the name is added.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

PREFIX = "fn-"
LIMIT = 63
HASH_DIGITS = 10

_PLAIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_PLAIN_FILE = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(10))})
"""Names that Windows does not allow for a file, whatever its ending."""


def instance_namespace(function: str, spec_id: str, index: int) -> str:
    """`fn-<name>-<spec id>-<index>`; with `-x` and ten digits of a hash where that would be too long or ambiguous.

    It is ambiguous when the name is not its own readable form, or when the spec id holds a hyphen (`a-b` + `c` and
    `a` + `b-c` would meet). A plain name ends in the index, so it never looks like a hashed one.
    """
    plain = f"{PREFIX}{function}-{spec_id}-{index}"
    if len(plain) <= LIMIT and _PLAIN.match(function) and "-" not in spec_id:
        return plain
    return _marked(plain, f"{function}\0{spec_id}\0{index}")


def task_namespace(task: str) -> str:
    """`fn-<name>-x` and ten digits of a hash, always: a function of the same name has a namespace of its own."""
    return _marked(f"{PREFIX}{task}", f"task\0{task}")


def label_value(name: str) -> str:
    """A label value (Kubernetes: at most 63 characters, ends alphanumeric) for a workload's name: the name itself, or a
    readable part of it with a mark. No plain name holds a dot, so none looks like a marked one."""
    if len(name) <= LIMIT and _PLAIN.match(name):
        return name
    return _marked(name, name, sign=".x")


def file_name(name: str) -> str:
    """One element of a path for any text: the name itself where it is safe on every file system, else folded, with `+`
    and a digest of the real name (`+` is in no name)."""
    if _PLAIN_FILE.fullmatch(name) and name not in _DEVICES:
        return name
    readable = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:60].rstrip("-_") or "x"
    return f"{readable}+{hashlib.blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=6).hexdigest()}"


def _marked(text: str, identity: str, *, sign: str = "-x") -> str:
    """The readable part of a text, in lower case, with a digest of what it stands for; at most 63 characters."""
    mark = f"{sign}{hashlib.sha256(identity.encode()).hexdigest()[:HASH_DIGITS]}"
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[: LIMIT - len(mark)].strip("-") + mark


def is_instance_namespace(name: str) -> bool:
    """Whether a namespace is in the range that instances are given; nothing else may be declared there."""
    return name.startswith(PREFIX)


SECRETS_NAMESPACE = "gitops-secrets"
"""Where the Secrets are that workloads name. People make it: who may write there decides what runs may know."""

PREFLIGHT_NAMESPACE = "gitops-preflight"
"""Always empty: where objects of a namespace that does not exist yet are dry-run."""

OURS = frozenset({"gitops-system", SECRETS_NAMESPACE, PREFLIGHT_NAMESPACE})
"""Namespaces on every target that belong to the reconciler."""


def refused_for_function(namespace: str) -> bool:
    """Whether a function may not take a namespace as its own: it would label it, and delete it in the end."""
    return namespace in OURS or namespace == "default" or namespace.startswith(("kube-", PREFIX))


def folded(path: str) -> str:
    """A path as a case-folding, normalising file system sees it: equal results collide there (cases.md G15)."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())
