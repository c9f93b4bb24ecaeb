"""docs/onboarding.md: how to add an operator by one file, field by field, from the models."""

from __future__ import annotations

from pathlib import Path

from gitops.cli import reference
from gitops.model import documents
from gitops.model.onboarding import SECTIONS
from gitops.model.operators import OperatorTypeSpec
from gitops.policy.narrowing import SETTABLE_BY_REPOSITORIES

_MADE = "<!-- Made by scripts/generate_docs.py from gitops/model/operators.py and docs/operator-example.yaml. -->\n"

_INTRODUCTION = """\
An operator is data. One file says what people may declare, what the operator makes of it, what it refuses, and what
must be known to run it. A type whose checklist is not complete is refused when the daemon starts: an operator that
nobody can install, observe or repair is not handed to anybody.

1. Copy the example below to `NAME.yaml` and change it. Facts come from the operator's definitions, its webhooks and its
   chart; every rule names its source.
2. Name the file, or its folder, in the setting `operator_types` of the daemon, and for commands without a daemon with
   `--set operator_types=NAME.yaml`. Until the type's status has a mapping of its own, the generic one counts.

For a type that ships with the program:

1. Its file is `policies/operators/NAME.yaml`; what its status means is `policies/status/NAME.yaml`, kind StatusMapping,
   in [documents.md](documents.md).
2. For every rule there is an object that satisfies it and one that breaks it: `tests/policy/operators/NAME.yaml`. A
   test demands both.
3. The operator's own samples lie beside the tests, and it is written down which of them the rules refuse.

What the CustomResourceDefinitions say is not repeated: schemas and their CEL rules are read from the cluster.

A repository may have a document of the same kind and name under `policies/`: it narrows a type that is known, by
listing what stays and by adding limits. It needs no checklist, and can set none of what is marked *settings only*.
"""


def onboarding_page(example: Path) -> str:
    """The page; `example` is the file that it quotes."""
    lines = ["# How to add an operator", "", _MADE, _INTRODUCTION]
    lines += ["## What people declare, and what is refused", ""]
    lines += _sections([name for name in OperatorTypeSpec.model_fields if name not in SECTIONS])
    lines += ["## The checklist", "", "All of it is required.", ""]
    lines += _sections(list(SECTIONS))
    lines += ["## Example", "", "```yaml", example.read_text(encoding="utf-8").rstrip(), "```", ""]
    return "\n".join(lines)


def _sections(names: list[str]) -> list[str]:
    lines: list[str] = []
    for name in names:
        info = OperatorTypeSpec.model_fields[name]
        use = documents.use_of(OperatorTypeSpec, name)
        inner, words = reference.type_of(info.annotation)
        only = "" if name in SETTABLE_BY_REPOSITORIES else ", settings only"
        lines += [f"### {name}", "", f"{words}, {use}{only}.", ""]
        texts = [" ".join((info.description or "").split()), " ".join((inner.__doc__ or "").split()) if inner else ""]
        lines += [f"{reference.prose(text)}\n" for text in texts if text]
        if inner is not None:
            lines += ["| field | type | default | meaning |", "|---|---|---|---|", *_rows(inner, ""), ""]
    return lines


def _rows(model: type[documents.Document], prefix: str) -> list[str]:
    rows = []
    for name, info in model.model_fields.items():
        inner, words = reference.type_of(info.annotation)
        default = "required" if info.is_required() else reference.default_of(info)
        meaning = " ".join((info.description or (inner.__doc__ if inner else "") or "").split())
        cells = (f"`{prefix}{name}`", words, default, meaning)
        rows.append(f"| {' | '.join(reference.cell(text) for text in cells)} |")
        if inner is not None:
            rows += _rows(inner, f"{prefix}{name}[]." if words.startswith("list") else f"{prefix}{name}.")
    return rows
