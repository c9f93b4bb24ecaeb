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
)
UNKNOWN_FIELD = define(
    "GO2002", E, "Unknown field", "Check the spelling and the indentation; docs/documents.md lists every field."
)
MISSING_FIELD = define("GO2003", E, "Missing field", "Add the field; docs/documents.md lists every field.")
WRONG_VALUE = define(
    "GO2004",
    E,
    "Wrong type or value",
    "Values are read as kubectl reads them: put quotes around text such as no, 1.20 or 08.",
)
WRONG_KIND = define(
    "GO2005", E, "Wrong kind of document here", "Each file has its fixed kind: see the layout in docs/documents.md."
)
WRONG_API_VERSION = define("GO2006", E, "Wrong apiVersion", "Write `apiVersion: gitops/v1alpha1`.")
NOT_ONE_DOCUMENT = define("GO2007", E, "The file must hold exactly one document", "Split the file, or fill it.")
NAME_IS_NOT_PLACE = define(
    "GO2008",
    E,
    "The name differs from the folder or file name",
    "metadata.name must equal the folder (functions/<name>/) or file (clusters/<name>.yaml) it is in.",
)
NOT_SUPPORTED = define(
    "GO2009", E, "Known, but not supported by this version", "Remove the field; it would be ignored otherwise."
)
RECORDED_ONLY = define("GO2010", I, "Recorded; does nothing yet", "Nothing to do: the value is kept and shown.")
KIND_NOT_SUPPORTED = define(
    "GO2011",
    W,
    "This kind of workload is not supported yet",
    "It is left alone: not applied, and nothing of it is ever pruned.",
)
POLICY_NOT_SUPPORTED = define(
    "GO2012",
    E,
    "Policies in the repository are not supported yet",
    "Remove the file: a policy that is not enforced would promise too much.",
)
UNKNOWN_OPERATOR = define(
    "GO2013",
    E,
    "Unknown operator type",
    "Use the name of an operator type: policies/operators/<name>.yaml of this product.",
)
UNKNOWN_CLUSTER = define("GO2014", E, "Unknown cluster", "Use the name of a document in clusters/.")
NOT_UNIQUE = define("GO2015", E, "Used twice where names must differ", "Give each its own name.")
NO_WORKLOAD_DOCUMENT = define(
    "GO2016",
    E,
    "The folder has no workload document",
    "Add function.yaml (in functions/<name>/) or bundle.yaml (in bundles/<name>/), or remove the folder.",
)
MIN_ABOVE_MAX = define("GO2017", E, "minInstances is above maxInstances", "Raise maxInstances or lower minInstances.")
NOTHING_DECLARED = define(
    "GO2018",
    E,
    "The tree declares no workload, or no cluster",
    "Nothing is pruned while this is so. If it is meant, set spec.allowEmpty: true in gitops.yaml.",
)

EXCLUSIVE = define(
    "GO2019",
    E,
    "Fields that exclude each other",
    "Keep one of them; a field that is there counts, also with an empty value.",
    "`containerImage` beside `manifests`",
)
CONTRADICTION = define(
    "GO2020",
    E,
    "Fields that contradict each other",
    "See docs/documents.md for the rule.",
    "a grace period above the runtime",
)
NOT_RENDERED = define(
    "GO2021",
    E,
    "Not rendered by this version",
    "Container images and Helm charts are checked only. Declare manifests of an operator instead.",
    "`helmChart: https://charts.example/chat-1.0.0.tgz`",
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
)
SUBMODULE = define("GO2102", E, "Submodule", "Submodules are not fetched: put the files themselves there.")
LFS_POINTER = define("GO2103", E, "Git LFS pointer", "LFS is not supported: store the file itself in Git.")
NO_SUCH_FILE = define("GO2104", E, "No such file", "Paths are relative to the folder of the workload.")
BAD_PATH = define(
    "GO2105",
    E,
    "Not a path inside the workload's folder",
    "Write a plain relative path with `/`; no `..`, no leading `/`, no URL.",
)
UNNAMED_FILE = define(
    "GO2106",
    W,
    "Nothing names this file",
    "Name it under manifests or as a patch, or remove it; as it is, it has no effect.",
)
CASE_COLLISION = define(
    "GO2107", W, "Two paths that are one on some systems", "Rename one: on macOS and Windows only one of them survives."
)
UNEXPECTED_FILE = define(
    "GO2108", E, "A file that does not belong here", "See the layout in docs/documents.md; files end in `.yaml`."
)
NO_OBJECTS = define(
    "GO2109",
    E,
    "The workload declares no object",
    "Nothing of it is pruned. To remove the workload, remove its whole folder.",
)
NAMED_TWICE = define("GO2110", E, "A file is named twice", "Name it once; a folder names every file below it.")
EMPTY_FILE = define(
    "GO2112",
    E,
    "An empty manifest file",
    "An editor or a tool that failed may have emptied it. To delete its objects, remove the file.",
)
MISPLACED = define(
    "GO2111",
    E,
    "A workload document outside its place",
    "Workloads are functions/<name>/function.yaml and bundles/<name>/bundle.yaml. Until then nothing is pruned.",
)

# -- patches ----------------------------------------------------------------------------------------------------------

TARGET_MISSING = define(
    "GO2201",
    E,
    "The patch's target is not in the base",
    "The target must match one object exactly: apiVersion, kind and name.",
)
TARGET_AMBIGUOUS = define("GO2202", E, "The patch's target matches several objects", "Add the target's namespace.")
EMPTY_PATCH_FILE = define("GO2203", E, "The patch file holds no patch", "Remove the entry, or write the patch.")
OPTIONAL_TARGET_MISSING = define(
    "GO2204",
    I,
    "The target of an optional patch is not in the base",
    "Nothing to do, if that is meant. Without `optional: true` it would be an error.",
    "`{target: {…, name: llm-prod}, optional: true, …}` where the base has `llm` only",
)

# -- several units ----------------------------------------------------------------------------------------------------

DECLARED_TWICE = define("GO5001", E, "One object declared twice in a workload", "Keep one of the two.")
TWO_OWNERS = define(
    "GO5002",
    E,
    "Two workloads declare one object",
    "Keep it in one of them. Until then both stay as they are, and the present owner keeps the object.",
)
UNKNOWN_DEPENDENCY = define(
    "GO5003",
    E,
    "gitops/depends-on names an object that the unit does not have",
    "Write Kind.group/name (Kind/name for the core group) of an object in the same workload.",
)
CYCLE = define("GO5004", E, "gitops/depends-on runs in a circle", "Remove one of the dependencies.")
OVER_CAPACITY = define(
    "GO5005",
    W,
    "More GPUs asked for than the cluster declares",
    "Instances beyond the capacity will wait for ever: raise the declared capacity or lower minInstances.",
)
IN_INSTANCE_NAMESPACE = define(
    "GO5006",
    E,
    "A bundle declares an object in a function's namespace",
    "Instance namespaces belong to their function alone: put the object into the function.",
)
