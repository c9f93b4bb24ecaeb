"""Writes policies/schemas/*.yaml: which lists of which kind have keys.

python scripts/list_schemas.py FOLDER

kubernetes.yaml comes from the OpenAPI documents of the API server of tests/controlplane, operators.yaml from the
CustomResourceDefinitions in FOLDER/*/crds and FOLDER/*/crds-grove (the operators' own). Only paths, kinds of lists and
names of keys are taken. tests/policy/test_shapes.py fails when a file is out of date.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "controlplane")]

from gitops.model.identity import GroupVersionKind  # noqa: E402
from gitops.overlays.shapes import ListKind, Shape  # noqa: E402
from gitops.policy.schemas.shapes import shape_of_schema, shapes_of_definition  # noqa: E402
from gitops.policy.scopes import builtin_namespaced  # noqa: E402

SCHEMAS = ROOT / "policies" / "schemas"

KUBERNETES = "Kubernetes 1.34, what an API server serves by default"
OPERATORS = "the Dynamo, Grove and NIM operators"

NAMES = {
    "containers": "Container",
    "extraPodSpec": "PodSpec",
    "metadata": "ObjectMeta",
    "podSpec": "PodSpec",
    "podTemplate": "PodTemplate",
    "spec": "PodSpec",
    "template": "PodTemplate",
}
"""Names of shared structures, by a field that holds one."""


def main() -> None:
    from controlplane_kit import binaries
    from controlplane_kit.controlplane import ControlPlane

    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder), binaries=binaries.locate() or binaries.build()).start()
        try:
            kinds = kubernetes_kinds(plane)
        finally:
            plane.stop()
    SCHEMAS.mkdir(exist_ok=True)
    (SCHEMAS / "kubernetes.yaml").write_text(table(kinds, KUBERNETES))
    (SCHEMAS / "operators.yaml").write_text(table(operators_kinds(Path(sys.argv[1])), OPERATORS))


def kubernetes_kinds(api: Any) -> dict[GroupVersionKind, Shape]:
    """Kubernetes' own kinds from the OpenAPI v3 documents of an API server (an ApiServer of the kit)."""
    kinds = {}
    for path, entry in _json(api.request("GET", "/openapi/v3"))["paths"].items():
        if not path.startswith(("api/", "apis/")):
            continue
        url, _, query = entry["serverRelativeURL"].partition("?")
        document = _json(api.request("GET", url, query=dict([query.split("=", 1)])))
        structures = document.get("components", {}).get("schemas", {})
        for schema in structures.values():
            for gvk in schema.get("x-kubernetes-group-version-kind", ()):
                kind = GroupVersionKind(gvk["group"], gvk["version"], gvk["kind"])
                if builtin_namespaced(kind.group_kind) is not None:
                    kinds[kind] = shape_of_schema(schema, structures)
    return kinds


def operators_kinds(upstream: Path) -> dict[GroupVersionKind, Shape]:
    """Kinds of the CustomResourceDefinitions of the operators."""
    kinds: dict[GroupVersionKind, Shape] = {}
    for file in sorted([*upstream.glob("*/crds/*.yaml"), *upstream.glob("*/crds-grove/*.yaml")]):
        for definition in yaml.load_all(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader):
            kinds |= dict(shapes_of_definition(definition))
    return kinds


def _json(answer: Any) -> Any:
    """The kit decodes what is declared as JSON; OpenAPI documents have a media type of their own."""
    return json.loads(answer) if isinstance(answer, str) else answer


# -- tables ------------------------------------------------------------------------------------------------------------


def table(kinds: Mapping[GroupVersionKind, Shape], source: str) -> str:
    """The text of a table: what occurs twice, and the items of lists, are structures."""
    writer = _Writer(kinds)
    lines = [
        f"# Which lists have keys, by kind: {source}.",
        "# Made by scripts/list_schemas.py; gitops/policy/schemas/shapes.py says how it is read.",
        "structures:",
    ]
    rows = {f"{kind.api_version} {kind.kind}": writer.rows(kind.kind, shape) for kind, shape in sorted(kinds.items())}
    for name, entries in writer.structures.items():
        lines += [f"  {name}:", *(f"    {path}: {entry}" for path, entry in entries)]
    lines.append("kinds:")
    for name, entries in rows.items():
        lines += [f"  {name}:" if entries else f"  {name}: {{}}", *(f"    {path}: {entry}" for path, entry in entries)]
    return "\n".join(lines) + "\n"


class _Writer:
    def __init__(self, kinds: Mapping[GroupVersionKind, Shape]) -> None:
        self._uses = Counter(_key(below) for shape in kinds.values() for below in _maps(shape))
        self._names: dict[str, str] = {}
        self.structures: dict[str, list[tuple[str, str]]] = {}

    def rows(self, kind: str, shape: Shape, path: str = "") -> list[tuple[str, str]]:
        """Path and entry of everything in a map. New structures are added before they are used."""
        rows = []
        children = sorted(shape.fields.items()) + ([("*", shape.values)] if shape.values else [])
        for field, child in children:
            here = f"{path}/{field}"
            if child.kind is ListKind.SET:
                rows.append((here, "set"))
            elif child.kind is ListKind.MAP:
                rows.append((here, self._list(kind, field, child)))
            else:
                inner = self.rows(kind, child, here)
                shared = self._uses[_key(child)] > 1 and len(inner) > 1
                rows += [(here, self._structure(kind, field, child))] if shared else inner
        return rows

    def _list(self, kind: str, field: str, shape: Shape) -> str:
        entry = f"keys: [{', '.join(shape.keys)}]"
        if shape.defaults:
            entry += f", defaults: {{{', '.join(f'{k}: {json.dumps(v)}' for k, v in shape.defaults.items())}}}"
        if shape.items is not None:
            entry += f", items: {self._structure(kind, field, shape.items)}"
        return f"{{{entry}}}"

    def _structure(self, kind: str, field: str, shape: Shape) -> str:
        key = _key(shape)
        if key not in self._names:
            entries = self.rows(kind, shape)
            own = (f"{kind}.{field}{number}" for number in ("", *range(2, 10)))
            wanted = [NAMES[field]] if field in NAMES and self._uses[key] > 1 else []
            name = next(name for name in (*wanted, *own) if name not in self.structures)
            self._names[key] = name
            self.structures[name] = entries
        return self._names[key]


def _maps(shape: Shape) -> Iterable[Shape]:
    """All maps in a shape."""
    for child in (*shape.fields.values(), shape.values, shape.items):
        if child is not None:
            if child.kind is ListKind.ATOMIC:
                yield child
            yield from _maps(child)


def _key(shape: Shape) -> str:
    return repr(shape)


if __name__ == "__main__":
    main()
