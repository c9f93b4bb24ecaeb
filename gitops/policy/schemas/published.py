"""The copy of a cluster's schemas as files, so that a CI without the cluster judges by the real ones.

One file a kind: `core/v1/ConfigMap.json`, `apps/v1/Deployment.json`. Equal schemas give equal bytes, and the reader
keeps the bytes as they are until the kind is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gitops.model.identity import GroupVersionKind
from gitops.policy.schemas.kind_schema import LARGEST, KindSchema
from gitops.policy.schemas.schema_set import SchemaSet

_CORE = "core"  # no group has this name: groups of custom kinds have a dot, and those of Kubernetes are known
_FILE = re.compile(r"([a-z0-9][a-z0-9.-]{0,252})/([a-z0-9][a-z0-9-]{0,62})/([A-Z][A-Za-z0-9]{0,62})\.json")


def files_of(schemas: SchemaSet) -> dict[str, bytes]:
    """File name → content. Kinds whose name no API server would serve have no file."""
    files = {f"{gvk.group or _CORE}/{gvk.version}/{gvk.kind}.json": kind for gvk, kind in schemas.kinds.items()}
    return {name: files[name].content for name in sorted(files) if _FILE.fullmatch(name)}


def schemas_of_files(files: Mapping[str, bytes]) -> SchemaSet:
    """The reverse of files_of(). Files of other names are passed over; a file that cannot be read judges nothing."""
    return SchemaSet.of(
        KindSchema(GroupVersionKind("" if group == _CORE else group, version, kind), content)
        for name, content in files.items()
        if (found := _FILE.fullmatch(name)) and len(content) <= LARGEST
        for group, version, kind in [found.groups()]
    )
