"""One rule of a role, as the API server's RBAC authorizer reads it.

Source: kubernetes/pkg/apis/rbac/v1/evaluation_helpers.go (VerbMatches, APIGroupMatches, ResourceMatches,
ResourceNameMatches, NonResourceURLMatches). Of what looks like a pattern only this is one: `*` alone, `*/scale` (that
subresource of every resource) and a URL that ends in `*`. `pods/*`, `*/*` and `get*` are plain texts that match
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gitops.model.findings import Origin

_NAMED_BY_BODY = frozenset({"create", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Rule:
    """`number` counts from 1 within the role that wrote it, `origin` is where; both are no part of what it allows."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    number: int = field(default=0, compare=False)
    origin: Origin = field(default=Origin(""), compare=False)

    def allows(self, verb: str, group: str, resource: str, name: str = "") -> bool:
        """Whether it allows a call; `resource` may have a subresource (`pods/log`), `name` is "" where a call has none
        (create, and a list of everything), which a rule with resourceNames never allows."""
        return (
            _has(self.verbs, verb)
            and _has(self.groups, group)
            and self.covers(resource)
            and (not self.names or name in self.names)
        )

    def covers(self, resource: str) -> bool:
        """Whether the resource, with its subresource, is among those of the rule."""
        _, slash, below = resource.partition("/")
        return _has(self.resources, resource) or bool(slash and f"*/{below}" in self.resources)

    def verbs_for(self, verbs: Iterable[str], resource: str) -> tuple[str, ...]:
        """Those of the verbs that it gives on a resource, as far as resourceNames leave any: a name is in the URL of a
        call, so neither `create` nor `deletecollection` can be allowed by name, but for a subresource's `create`."""
        dead = _NAMED_BY_BODY if self.names and "/" not in resource else frozenset[str]()
        return tuple(verb for verb in verbs if _has(self.verbs, verb) and verb not in dead)

    @property
    def is_everything(self) -> bool:
        """Every verb on every resource: cluster-admin under another name."""
        return all("*" in own for own in (self.verbs, self.groups, self.resources)) and not self.names


def _has(own: Sequence[str], wanted: str) -> bool:
    return "*" in own or wanted in own


def wildcards(rule: Rule) -> Iterator[str]:
    """What in the rule has no bounds, in words. `*/…` counts, also `*/*`, which no resource matches today but nobody
    writes to grant nothing; a prefix of URLs such as `/metrics/*` does not, unless it is the prefix of all."""
    for key, own in (("verbs", rule.verbs), ("apiGroups", rule.groups), ("resources", rule.resources)):
        if "*" in own:
            yield f"`*` in {key}"
    yield from (f"`{shown(own)}` in resources" for own in rule.resources if own.startswith("*/"))
    yield from (f"`{shown(own)}` in nonResourceURLs" for own in rule.urls if own.endswith("*") and not own.strip("/*"))


def escalating_verbs(rule: Rule) -> list[str]:
    """Verbs that lead to rights that the rule does not name. KEP-5284 adds `impersonate:…` and
    `impersonate-on:…` to `impersonate`."""
    return sorted({shown(v) for v in rule.verbs if v in ("escalate", "bind") or v.startswith("impersonate")})


def shown(text: str) -> str:
    """A text of an author, short enough for a sentence."""
    return text if len(text) <= 80 else f"{text[:79]}…"


def read_rule(value: Any, number: int = 0, origin: Origin = Origin("")) -> tuple[Rule, str]:  # noqa: B008 - frozen
    """A rule from JSON, made of every text that stands where one belongs, and what is wrong with it ("" when nothing
    is): what cannot be read may grant anything."""
    if not isinstance(value, dict):
        return Rule(number=number, origin=origin), "is no map"
    keys = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    wrong = [key for key in keys if not _is_texts(value.get(key))]
    verbs, groups, resources, names, urls = (texts(value.get(key)) for key in keys)
    rule = Rule(verbs, groups, resources, names, urls, number, origin)
    return rule, f"has no list of texts under {', '.join(wrong)}" if wrong else ""


def texts(value: Any) -> tuple[str, ...]:
    """The texts of a list, whatever else is in it; of one text alone, that."""
    return tuple(item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str))


def _is_texts(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(item, str) for item in value))
