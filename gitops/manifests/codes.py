"""Findings of reading: GO10xx text and YAML, GO11xx what a manifest must look like."""

from __future__ import annotations

from gitops.model.catalogue import define
from gitops.model.findings import Severity

_QUOTE = "Put it in quotes if text is meant."

FILE_TOO_LARGE = define(
    "GO1001",
    Severity.ERROR,
    "file is too large",
    "Split the file; large data belongs in a volume, not in a manifest.",
    example="a ConfigMap with an image file of 20 MB in `binaryData`",
)
NOT_UTF8 = define(
    "GO1002", Severity.ERROR, "file is not UTF-8", "Save the file as UTF-8 without a byte order mark.", "a UTF-16 file"
)
STRAY_MARK = define(
    "GO1003",
    Severity.ERROR,
    "byte order mark inside the file",
    "Remove the invisible character U+FEFF at that place.",
    example="two files joined by `cat`, the second one with a byte order mark",
)
BARE_RETURN = define(
    "GO1004",
    Severity.ERROR,
    "carriage return without line feed",
    "Save the file with LF (or CRLF) line ends.",
    example="a file with line ends of the old Mac OS",
)
SYNTAX = define(
    "GO1005",
    Severity.ERROR,
    "not valid YAML",
    "Nothing of the file is used until it can be read.",
    example="`image: nginx: 1.27`",
)
TAB = define(
    "GO1006",
    Severity.ERROR,
    "tab character where YAML wants spaces",
    "Replace the tab by spaces.",
    example="a line that is indented by a tab",
)
TOO_MANY_NODES = define(
    "GO1007",
    Severity.ERROR,
    "too many values once aliases are expanded",
    "Split the file, or write out less through anchors and aliases.",
    example="`b: [*a, *a, *a]`, `c: [*b, *b, *b]`, and so on",
)
TOO_DEEP = define(
    "GO1008",
    Severity.ERROR,
    "nested too deeply",
    "No Kubernetes object needs such depth.",
    example="`[[[[…]]]]`, more than two hundred brackets deep",
)
TOO_MANY_FINDINGS = define(
    "GO1009",
    Severity.ERROR,
    "too many errors in one file",
    "Repair the first ones; the others are then shown.",
    example="more than a hundred values such as `08`",
)
DUPLICATE_KEY = define(
    "GO1010",
    Severity.ERROR,
    "key written twice in one map",
    "Merge the two entries, or remove one of them.",
    example="`image: a` and, further down in the same map, `image: b`",
)
KEY_NOT_TEXT = define(
    "GO1011", Severity.ERROR, "map key is not text", "Put the key in quotes.", "`on:` is the boolean true"
)
TAG = define(
    "GO1012", Severity.ERROR, "YAML tag", "Write the plain value; only `!!str` is understood.", "`!Ref x`, `!!binary`"
)
NOT_FINITE = define(
    "GO1013", Severity.ERROR, "infinity or NaN", f"JSON has no such number. {_QUOTE}", example="`threshold: .inf`"
)
NUMBER_TOO_LARGE = define(
    "GO1014", Severity.ERROR, "number does not fit into 64 bits", _QUOTE, example="`id: 18446744073709551616`"
)
LEADING_ZERO = define(
    "GO1015",
    Severity.ERROR,
    "leading zero before a number that is not octal",
    f"Tools disagree on it: drop the zero. {_QUOTE}",
    "`08`",
)
UNKNOWN_ALIAS = define(
    "GO1016",
    Severity.ERROR,
    "alias without an anchor",
    "Anchors reach to the end of their own document only.",
    example="`env: *common`, and no `&common` before it in the document",
)
CYCLE = define("GO1017", Severity.ERROR, "anchor that contains itself", "Write the value out.", example="`a: &a [*a]`")
BAD_MERGE = define(
    "GO1018",
    Severity.ERROR,
    "merge key without a map",
    "`<<:` takes an alias of a map, or a list of such aliases.",
    example="`<<: text`",
)
MERGE_ORDER = define(
    "GO1022",
    Severity.ERROR,
    "merge key after a key that it also sets",
    "kubectl takes the merged value there, YAML's rule the written one. Put `<<` first in the map.",
    "`{image: b, <<: *base}`",
)
AMBIGUOUS_BOOLEAN = define(
    "GO1019",
    Severity.WARNING,
    "y or n is read as a boolean",
    f"Other YAML tools read it as text. Write true or false. {_QUOTE}",
    example="`enabled: y`",
)
DIRECTIVE = define(
    "GO1020",
    Severity.WARNING,
    "%YAML directive has no effect",
    "Values are read as kubectl reads them. Remove it.",
    example="`%YAML 1.1`",
)
COMPLEX_KEY = define(
    "GO1021", Severity.ERROR, "map key is a map or list", "Only text can be a key.", example="`[a, b]: c`"
)
KUBECTL_REFUSES = define(
    "GO1023",
    Severity.ERROR,
    "YAML that kubectl refuses",
    "kubectl cuts files at `---` lines and reads an older YAML. Write it as the message says.",
    "`--- {a: 1}`",
)

NOT_AN_OBJECT = define(
    "GO1101",
    Severity.ERROR,
    "document is not a Kubernetes object",
    "A manifest is a map with apiVersion, kind and metadata.name.",
    "`Kind: Service`",
)
LIST_WITHOUT_KIND = define(
    "GO1102",
    Severity.ERROR,
    "list without kind",
    "Add `kind: List` and `apiVersion: v1`.",
    example="`items: [{apiVersion: v1, kind: ConfigMap}]`, and no `kind` beside it",
)
BAD_ITEMS = define(
    "GO1103",
    Severity.ERROR,
    "items that are not the objects of a List",
    "`items` at the root is the list of objects of a `kind: List`; kubectl knows no other meaning of it.",
    example="`kind: List` with `items: [web, api]`",
)
GENERATE_NAME = define(
    "GO1104",
    Severity.ERROR,
    "generateName",
    "An object declared in Git needs a name: set metadata.name.",
    example="`metadata: {generateName: job-}`",
)
METADATA_NOT_TEXT = define(
    "GO1105",
    Severity.ERROR,
    "label or annotation is not text",
    "Put the value in quotes.",
    example="`labels: {version: 1.2}`",
)
OWNER_REFERENCES = define(
    "GO1106",
    Severity.ERROR,
    "ownerReferences in a manifest",
    "They name uids of one cluster; elsewhere the object is garbage-collected at once. Remove them.",
    example="`metadata: {ownerReferences: [{kind: Deployment, name: web, uid: 3f0c}]}`",
)
SERVER_OWNED = define(
    "GO1107",
    Severity.INFO,
    "field that only the cluster writes",
    "It is left out of what is applied. Remove it from the manifest.",
    example='`metadata: {resourceVersion: "812"}`, as `kubectl get -o yaml` prints it',
)
EMPTY_VALUE = define(
    "GO1108",
    Severity.INFO,
    "empty value without meaning",
    "It is left out of what is applied: it means the same.",
    example="`creationTimestamp: null`",
)
