"""Findings of overlays: GO30xx what a patch must not do, GO31xx what it did."""

from __future__ import annotations

from gitops.model.catalogue import define
from gitops.model.findings import Severity

DIRECTIVE = define(
    "GO3001",
    Severity.ERROR,
    "strategic merge directive",
    "Not supported here: use a JSON patch (RFC 6902), or `lists: byKey` to merge lists. In a merge patch null removes "
    "a key, and a list is written whole.",
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
    "A patch file names its target with apiVersion, kind and metadata.name; the rest is the patch. A file of JSON "
    "patch operations is listed as `{target, path}`.",
    example="a patch file without `kind`",
)
EMPTY_PATCH = define(
    "GO3006",
    Severity.WARNING,
    "patch changes nothing",
    "Remove it, or say what it shall change.",
    example="a patch file with nothing but apiVersion, kind and metadata.name",
)

TARGET_IS_PATTERN = define(
    "GO3007",
    Severity.ERROR,
    "a pattern as target",
    "Targets are exact: write one entry for each object. Globs and regular expressions match more than was meant.",
    "`name: llm-*`",
)
NOT_OPERATIONS = define(
    "GO3008",
    Severity.ERROR,
    "not the operations of a JSON patch",
    "Write one document that is a list of operations: `- {op: replace, path: /spec/replicas, value: 2}`.",
    "a merge patch listed as `{target, path}`",
)
BAD_OPERATION = define(
    "GO3009",
    Severity.ERROR,
    "malformed operation of a JSON patch",
    "add, replace and test have path and value; remove has path; move and copy have from and path.",
    "`{op: Add, path: /spec/replicas, val: 2}`",
)
BAD_POINTER = define(
    "GO3010",
    Severity.ERROR,
    "malformed path in a JSON patch",
    "A path begins with /, in keys ~1 stands for / and ~0 for ~, and list positions are 0, 1, … or, to append, `-`.",
    "`path: metadata/labels/a`, `/spec/args/01`, `replace` at `/spec/args/-`",
)
PARENT_MISSING = define(
    "GO3011",
    Severity.ERROR,
    "JSON patch adds below something that is not there",
    "Parents are not created: add the missing one first, in an operation of its own.",
    "`add /metadata/annotations/team` to an object without annotations",
)
NOTHING_THERE = define(
    "GO3012",
    Severity.ERROR,
    "JSON patch changes something that is not there",
    "replace, remove, move and copy need a value that is there; an earlier patch may have moved it. To set one, add.",
    "`replace /spec/replicas` in an object without replicas",
)
TEST_FAILED = define(
    "GO3013",
    Severity.ERROR,
    "a test of a JSON patch fails",
    "Nothing of the patch is applied. Look at the base again: it is not what the patch was written for.",
    "`test /spec/replicas 3` where the base has 2",
)
TOO_LARGE = define(
    "GO3014",
    Severity.ERROR,
    "JSON patch makes an object too large",
    "Copy less: copies of copies grow without bound.",
    "`copy` of /spec into itself, twenty times",
)
NO_SCHEMA = define(
    "GO3015",
    Severity.ERROR,
    "lists by key of a kind without a known schema",
    "Use `lists: replace` and write the list whole, or a JSON patch. Known are Kubernetes' own kinds, those of the "
    "shipped operators, and kinds whose CustomResourceDefinition is in the same bundle.",
    "`lists: byKey` for a kind that no shipped schema has",
)
ITEM_WITHOUT_KEY = define(
    "GO3016",
    Severity.ERROR,
    "an item of a keyed list lacks its key",
    "With `lists: byKey` an item says which one it is: give it the key that the schema names.",
    "`containers: [{image: x}]`",
)
EQUAL_ITEMS = define(
    "GO3017",
    Severity.ERROR,
    "two items of a keyed list have one key",
    "Keep one of them; the API server refuses such a list too.",
    "`env: [{name: A, value: x}, {name: A, value: y}]`",
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
KEYS_GONE = define(
    "GO3104",
    Severity.INFO,
    "overlay replaces a map and drops keys",
    "A JSON patch that adds or replaces a map does not merge it. Add single keys instead, or repeat what shall stay.",
    "`add /metadata/annotations {new: x}` where there are others",
)
PARTS_CHANGED = define(
    "GO3105",
    Severity.ERROR,
    "overlay adds or removes components",
    "Their set is fixed once the object lives. To change one component use `lists: byKey` or a JSON patch; if the set "
    "is to change, say `changesComponents: true` in the entry.",
    "a merge patch with one item of `components`",
)
FIXED_FIELD_GONE = define(
    "GO3106",
    Severity.WARNING,
    "overlay removes a field that the operator keeps fixed",
    "The operator refuses that on an object that lives; it works only where the object is created.",
    "`backendFramework: null`",
)
