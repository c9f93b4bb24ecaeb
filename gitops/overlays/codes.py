"""Findings of overlays: GO30xx what a patch must not do, GO31xx what it did."""

from __future__ import annotations

from gitops.model.catalogue import define
from gitops.model.findings import Severity

DIRECTIVE = define(
    "GO3001",
    Severity.ERROR,
    "strategic merge directive",
    "Patches here are JSON Merge Patches: lists are replaced whole, null removes a key. Write the whole list.",
    "`$patch: delete`",
)
IDENTITY = define(
    "GO3002",
    Severity.ERROR,
    "overlay changes the identity of an object",
    "Identity comes from the base only: apiVersion, kind, name and namespace are no part of a patch.",
    example="`patch: {metadata: {name: other}}`",
)
OWNERSHIP = define(
    "GO3003",
    Severity.ERROR,
    "overlay changes who owns an object",
    "Finalizers, owner references and fields written by the cluster are out of reach of an overlay.",
    example="`patch: {metadata: {finalizers: []}}`",
)
RESERVED = define(
    "GO3004",
    Severity.ERROR,
    "overlay changes reserved labels or annotations",
    "Keys starting with gitops/ or applyset.kubernetes.io/ belong to the base object and to the daemon.",
    example='`patch: {metadata: {annotations: {gitops/allow-delete: "true"}}}`',
)
NOT_A_PATCH = define(
    "GO3005",
    Severity.ERROR,
    "not a patch file",
    "A patch file names its target with apiVersion, kind and metadata.name; the rest is the patch.",
    example="a patch file without `kind`",
)
EMPTY_PATCH = define(
    "GO3006",
    Severity.WARNING,
    "patch changes nothing",
    "Remove it, or say what it shall change.",
    example="a patch file with nothing but apiVersion, kind and metadata.name",
)

ITEMS_GONE = define(
    "GO3101",
    Severity.INFO,
    "overlay replaces a list and drops items",
    "A merge patch replaces lists whole. Repeat the items that shall stay.",
    example="`args: [--fast]` over a base with `args: [--model, llama]`",
)
TYPE_CHANGED = define(
    "GO3102",
    Severity.INFO,
    "overlay changes the type of a value",
    "The merged object is validated; look twice.",
    example="`resources: none` over a base where `resources` is a map",
)
OVERLAY_OVER_OVERLAY = define(
    "GO3103",
    Severity.INFO,
    "two overlays set one value",
    "The later one in the declared order wins.",
    example="`replicas: 2` in the deployment's patch and `replicas: 4` in the one for the cluster",
)
