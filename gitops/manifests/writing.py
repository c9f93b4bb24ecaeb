"""JSON values to YAML that every reader reads back as they are: kubectl, YAML 1.1 and YAML 1.2."""

from __future__ import annotations

from typing import Any

from yaml import CSafeDumper, dump
from yaml.nodes import ScalarNode

from gitops.manifests import scalars

_TEXT = "tag:yaml.org,2002:str"


class _Dumper(CSafeDumper):
    """PyYAML quotes what YAML 1.1 reads as something else. For kubectl `1e3` and `0o17` are numbers and `y` is true."""


def _text(dumper: _Dumper, text: str) -> ScalarNode:
    try:
        plain = scalars.resolve(text) == text if text else False
    except scalars.RefusedScalar:
        plain = False
    return dumper.represent_scalar(_TEXT, text, style=None if plain else "'")


_Dumper.add_representer(str, _text)


def yaml_text(value: Any) -> str:
    """Block style, keys in the order given, no line folding. The same value always gives the same text."""
    return str(dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 20))
