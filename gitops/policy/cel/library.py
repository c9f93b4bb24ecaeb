"""Kubernetes' functions for the engine: what gitops/policy/cel/functions declares, as overloads."""

from __future__ import annotations

from typing import Any

from cel_expr_python import cel

from gitops.policy.cel.functions import addresses, formats, lists, numbers, printing, texts, urls
from gitops.policy.cel.functions.declaring import Function

FUNCTIONS: tuple[Function, ...] = (
    *lists.FUNCTIONS,
    *numbers.FUNCTIONS,
    *addresses.FUNCTIONS,
    *urls.FUNCTIONS,
    *formats.FUNCTIONS,
    *texts.FUNCTIONS,
    *printing.FUNCTIONS,
)

_TYPES = {
    "string": cel.Type.STRING,
    "int": cel.Type.INT,
    "double": cel.Type.DOUBLE,
    "bool": cel.Type.BOOL,
    "dyn": cel.Type.DYN,
    "duration": cel.Type.DURATION,
    "timestamp": cel.Type.TIMESTAMP,
    "list": cel.Type.List(cel.Type.DYN),
    "map": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
}


def declarations() -> list[Any]:
    """All of them, one declaration a name."""
    by_name: dict[str, list[Any]] = {}
    for function in FUNCTIONS:
        overloads = by_name.setdefault(function.name, [])
        overloads.append(
            cel.Overload(
                f"k8s_{function.name}_{len(overloads)}",
                _TYPES[function.gives],
                [_TYPES[kind] for kind in function.takes],
                function.member,
                function.call,
            )
        )
    return [cel.FunctionDecl(name, overloads) for name, overloads in by_name.items()]
