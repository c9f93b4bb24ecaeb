"""Codes of findings about documents, files, patches (GO2xxx) and about several units together (GO5xxx)."""

from __future__ import annotations

from gitops.model.catalogue import define
from gitops.model.documents import Rule
from gitops.model.findings import Severity

E, W, I = Severity.ERROR, Severity.WARNING, Severity.INFO  # noqa: E741

# -- documents --------------------------------------------------------------------------------------------------------

NO_REPOSITORY = define(
    "GO2001",
    E,
    "gitops.yaml is missing or unusable",
    "Put a document of kind Repository at the root of the repository. Until then nothing is applied or pruned.",
    example="a repository without the file `gitops.yaml`",
)
UNKNOWN_FIELD = define(
    "GO2002",
    E,
    "Unknown field",
    "Check the spelling and the indentation; docs/documents.md lists every field.",
    example="`minInstance: 2` for `minInstances`",
)
MISSING_FIELD = define(
    "GO2003",
    E,
    "Missing field",
    "Add the field; docs/documents.md lists every field.",
    example="a GPU specification without `id`",
)
WRONG_VALUE = define(
    "GO2004",
    E,
    "Wrong type or value",
    "Values are read as kubectl reads them: put quotes around text such as no, 1.20 or 08.",
    example='`minInstances: "2"`',
)
WRONG_KIND = define(
    "GO2005",
    E,
    "Wrong kind of document here",
    "Each file has its fixed kind: see the layout in docs/documents.md.",
    example="`kind: Bundle` in `functions/chat/function.yaml`",
)
WRONG_API_VERSION = define(
    "GO2006", E, "Wrong apiVersion", "Write `apiVersion: gitops/v1alpha1`.", example="`apiVersion: v1`"
)
NOT_ONE_DOCUMENT = define(
    "GO2007",
    E,
    "The file must hold exactly one document",
    "Split the file, or fill it.",
    example="a second document after `---` in `function.yaml`",
)
NAME_IS_NOT_PLACE = define(
    "GO2008",
    E,
    "The name differs from the folder or file name",
    "metadata.name must equal the folder (functions/<name>/) or file (clusters/<name>.yaml) it is in.",
    example="`metadata: {name: chat}` in `functions/llama-chat/function.yaml`",
)
NOT_SUPPORTED = define(
    "GO2009",
    E,
    "Known, but not supported by this version",
    "Remove the field; it would be ignored otherwise.",
    example="`backend: group-1` in a GPU specification",
)
RECORDED_ONLY = define(
    "GO2010",
    I,
    "Recorded; does nothing yet",
    "Nothing to do: the value is kept and shown.",
    example="`maxInstances: 4`",
)
NOT_RUN = define(
    "GO2011",
    I,
    "A workload that is checked and not run yet",
    "It is left alone: not applied, and nothing of it is ever pruned.",
    example="`kind: Task`",
)
POLICY_NOT_USED = define(
    "GO2012",
    I,
    "A policy that is checked and not used yet",
    "Nothing to do: the shipped ones are used.",
    example="`kind: StatusMapping`",
)
UNKNOWN_OPERATOR = define(
    "GO2013",
    E,
    "Unknown operator type",
    "Use the name of an operator type: policies/operators/<name>.yaml of this product.",
    example="`operatorTypes: [dynamoo]`",
)
UNKNOWN_CLUSTER = define(
    "GO2014",
    E,
    "Unknown cluster",
    "Use the name of a document in clusters/.",
    example="`clusters: [dgx-z]`, and no `clusters/dgx-z.yaml`",
)
NOT_UNIQUE = define(
    "GO2015",
    E,
    "Used twice where names must differ",
    "Give each its own name.",
    example="two GPU specifications with `id: h100`",
)
NO_WORKLOAD_DOCUMENT = define(
    "GO2016",
    E,
    "The folder has no workload document",
    "Add function.yaml in functions/<name>/, bundle.yaml in bundles/<name>/ or task.yaml in tasks/<name>/ (with the "
    "ending .yaml), or remove the folder.",
    example="`functions/chat/manifests/graph.yaml`, and no `functions/chat/function.yaml`",
)
MIN_ABOVE_MAX = define(
    "GO2017",
    E,
    "minInstances is above maxInstances",
    "Raise maxInstances or lower minInstances.",
    example="`minInstances: 3` with `maxInstances: 2`",
)
NOTHING_DECLARED = define(
    "GO2018",
    E,
    "The tree declares no function and no bundle, or no cluster",
    "Nothing is pruned while this is so. If it is meant, set spec.allowEmpty: true in gitops.yaml.",
    example="a commit that removes every folder below `functions/` and `bundles/`",
)

EXCLUSIVE = define(
    "GO2019",
    E,
    "Fields that exclude each other",
    "Keep one of them; a field that is there counts, also with an empty value.",
    example="`containerImage` beside `manifests`",
)
CONTRADICTION = define(
    "GO2020",
    E,
    "Fields that contradict each other",
    "See docs/documents.md for the rule.",
    example="a grace period above the runtime",
)
NOT_RENDERED = define(
    "GO2021",
    E,
    "Not rendered by this version",
    "Container images and Helm charts are checked only. Declare manifests of an operator instead.",
    example="`helmChart: https://charts.example/chat-1.0.0.tgz`",
)
UNKNOWN_POLICY = define(
    "GO2022",
    E,
    "Unknown validation policy",
    "Use Default, Unrestricted, or the name of a ValidationPolicy document in policies/.",
    example="`validationPolicy: {name: lenient}`",
)
RULES = {
    Rule.MISSING: MISSING_FIELD,
    Rule.EXCLUSIVE: EXCLUSIVE,
    Rule.NOT_UNIQUE: NOT_UNIQUE,
    Rule.MIN_ABOVE_MAX: MIN_ABOVE_MAX,
    Rule.CONTRADICTION: CONTRADICTION,
}
"""The finding of each rule between fields."""

# -- files ------------------------------------------------------------------------------------------------------------

SYMLINK = define(
    "GO2101",
    E,
    "Symbolic link",
    "Links are never followed below gitops.yaml, clusters/, functions/, bundles/, tasks/, operators/ and policies/: "
    "put a real file there.",
    example="`functions/chat/manifests/graph.yaml -> ../../shared/graph.yaml`",
)
SUBMODULE = define(
    "GO2102",
    E,
    "Submodule",
    "Submodules are not fetched: put the files themselves there.",
    example="`bundles/base` as a submodule",
)
LFS_POINTER = define(
    "GO2103",
    E,
    "Git LFS pointer",
    "LFS is not supported: store the file itself in Git.",
    example="a manifest that begins with `version https://git-lfs.github.com/spec/v1`",
)
NO_SUCH_FILE = define(
    "GO2104",
    E,
    "No such file",
    "Paths are relative to the folder of the workload.",
    example="`manifests: [manifest]`, where the folder is called `manifests`",
)
BAD_PATH = define(
    "GO2105",
    E,
    "Not a path inside the workload's folder",
    "Write a plain relative path with `/`; no `..`, no leading `/`, no pattern, no URL.",
    example="`manifests: [../shared/graph.yaml]`",
)
UNNAMED_FILE = define(
    "GO2106",
    W,
    "Nothing names this file",
    "Name it under manifests or as a patch, or remove it; as it is, it has no effect.",
    example="`functions/chat/overlays/old.yaml`, in no list of patches",
)
CASE_COLLISION = define(
    "GO2107",
    W,
    "Two paths that are one on some systems",
    "Rename one: on macOS and Windows only one of them survives.",
    example="`functions/Chat` beside `functions/chat`",
)
UNEXPECTED_FILE = define(
    "GO2108",
    E,
    "A file that does not belong here",
    "See the layout in docs/documents.md; files end in `.yaml`.",
    example="`clusters/dgx-a.yml`",
)
NO_OBJECTS = define(
    "GO2109",
    E,
    "The workload declares no object",
    "Nothing of it is pruned. To remove the workload, remove its whole folder.",
    example="manifests that hold comments only",
)
NAMED_TWICE = define(
    "GO2110",
    E,
    "A file is named twice",
    "Name it once; a folder names every file below it.",
    example="`manifests: [manifests, manifests/graph.yaml]`",
)
EMPTY_FILE = define(
    "GO2112",
    E,
    "An empty file",
    "An editor or a tool that failed may have emptied it. If nothing of it is wanted any more, remove the file.",
    example="a manifest of no bytes, or of white space only",
)
MISPLACED = define(
    "GO2111",
    E,
    "A workload document outside its place",
    "Workloads are functions/<name>/function.yaml, bundles/<name>/bundle.yaml and tasks/<name>/task.yaml. Until then "
    "nothing is pruned.",
    example="`archive/chat/function.yaml`",
)

# -- patches ----------------------------------------------------------------------------------------------------------

TARGET_MISSING = define(
    "GO2201",
    E,
    "The patch's target is not in the base",
    "The target must match one object exactly: apiVersion, kind and name.",
    example="`target: {apiVersion: v1, kind: ConfigMap, name: setings}`",
)
TARGET_AMBIGUOUS = define(
    "GO2202",
    E,
    "The patch's target matches several objects",
    "Add the target's namespace.",
    example="a patch for ConfigMap `settings`, which the bundle has in two namespaces",
)
EMPTY_PATCH_FILE = define(
    "GO2203",
    E,
    "The patch file holds no patch",
    "Remove the entry, or write the patch.",
    example="a patch file that holds comments only",
)
OPTIONAL_TARGET_MISSING = define(
    "GO2204",
    I,
    "The target of an optional patch is not in the base",
    "Nothing to do, if that is meant. Without `optional: true` it would be an error.",
    example="`{target: {…, name: llm-prod}, optional: true, …}` where the base has `llm` only",
)

# -- several units ----------------------------------------------------------------------------------------------------

DECLARED_TWICE = define(
    "GO5001",
    E,
    "One object declared twice in a workload",
    "Keep one of the two.",
    example="the same ConfigMap in two files of a function",
)
TWO_OWNERS = define(
    "GO5002",
    E,
    "Two workloads declare one object",
    "Keep it in one of them. Until then both stay as they are, and the present owner keeps the object.",
    example="Namespace `monitoring` in two bundles for the same cluster",
)
UNKNOWN_DEPENDENCY = define(
    "GO5003",
    E,
    "gitops/depends-on names an object that the unit does not have",
    "Write Kind.group/name (Kind/name for the core group) of an object in the same workload.",
    example="`gitops/depends-on: ConfigMap/setings`",
)
CYCLE = define(
    "GO5004",
    E,
    "gitops/depends-on runs in a circle",
    "Remove one of the dependencies.",
    example="a depends on b, and b on a",
)
OVER_CAPACITY = define(
    "GO5005",
    W,
    "More GPUs asked for than the cluster declares",
    "Instances beyond the capacity will wait for ever: raise the declared capacity or lower minInstances.",
    example="three instances of 8 GPUs on a cluster with `capacity: 16`",
)
IN_INSTANCE_NAMESPACE = define(
    "GO5006",
    E,
    "A bundle declares an object in a function's namespace",
    "Instance namespaces belong to their function alone: put the object into the function.",
    example="a ConfigMap in `fn-llama-chat-h100-0` in a bundle",
)
SECRET_DECLARED_AND_NAMED = define(
    "GO4551",
    E,
    "A Secret is both declared and named under secretRefs",
    "The copy and the manifest would be one object: rename one of them, or drop the entry.",
    example="`secretRefs: [{name: ngc-key}]` beside a manifest of Secret `ngc-key`",
)
NAMESPACE_MISSPELLED = define(
    "GO4541",
    W,
    "A bundle names a namespace that nobody declares, and one of nearly that name is declared",
    "Check the spelling. The objects wait until somebody makes the namespace.",
    example="`namespace: taem` where a bundle has Namespace `team`",
)
