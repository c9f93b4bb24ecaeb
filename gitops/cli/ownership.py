"""docs/ownership.md: whose a field is that others write too, with the shipped rules from their files."""

from __future__ import annotations

from gitops.model.ownership import OwnershipRule
from gitops.policy.ownership import Ownership
from gitops.policy.registry import OperatorRegistry

_MADE = "<!-- Made by scripts/generate_docs.py from policies/ownership/ and the operator types' handovers. -->\n"

_INTRODUCTION = """\
Every field that Git declares is Git's: whoever changes it on the cluster finds it changed back, and the drift report
names the field, the value and the manager. Some fields are not meant so. An autoscaler sets the number of replicas, an
injector renews a certificate. For these there are three answers:

| answer | what happens |
|---|---|
| `take` | Git's value is written over theirs. The default |
| `yield` | the field is theirs as long as they own it: not sent, not compared, no drift. Then it is Git's again |
| `ask` | while the values differ it is not sent, and the unit is in state `Conflict`, which names field and manager |

It is always one field: never an item of a list, never a whole object; everything else of the object goes on as ever.
When an object is made, everything is sent.

## Who decides

1. **Handovers.** A field belongs to somebody else while a condition holds, whoever owns it at the moment: replicas of
   what an autoscaler targets, from the moment there is one, in Git or on the cluster; the `handovers` of operator
   types, which are listed below; and what the object says itself (*Fields that nobody is to look at*).
2. **The table.** The first rule that is about manager, subresource, kind and path. Rules of the setting
   `ownership_tables` come before the shipped ones; the format is that of the files in `policies/ownership/`
   (`apiVersion: gitops/v1alpha1`, `kind: OwnershipTable`).
3. **The annotation** `gitops/conflicts: take | yield | ask` on an object in Git, for its fields that no rule is about.
   Without it: `take`.

## Fields that nobody is to look at

The annotation `gitops/ignore-drift` names fields of its object, separated by commas:

    gitops/ignore-drift: /spec/replicas, /spec/template/metadata/annotations/example.com~1rolled

A path is a JSON pointer (RFC 6901: `~1` is a slash in a key, `~0` a tilde). `*` stands for every key of a map or item
of a list; `/spec/template/spec/containers/web/image` is that of the item named `web`. A path means a field and all
below it, never an item of a list, nor what tells items apart. Such a field has Git's value when the object is made.
From then on it is whoever's writes it: not sent, not compared, not reported, not repaired, also when somebody removes
it. Another value in Git then changes nothing live; when the annotation goes, Git's value is applied.

What Git does not declare needs no annotation: labels, annotations, finalizers and containers that others add, all that
operators and injectors fill in. For all objects of a daemon, a rule with `managers: ["*"]` and the answer `yield` in
`ownership_tables` leaves a field to whoever writes it, and takes it back when they give it up.

`kubectl rollout restart` writes an annotation into the pod template. It is no drift, and stays. Where Git has such a
stamp (`kubectl.kubernetes.io/restartedAt`) it is a trigger: another value in Git restarts the pods once, and a restart
by hand is not undone.

## How a value is handed over

Server-side apply resets a field when its only owner stops sending it, and an autoscaler that finds the number it wants
takes no ownership. So the field is first taken out of our entry in `managedFields`, by a JSON patch that holds only for
the resourceVersion it was made from; this moves no value and no generation. From then on it is absent from what is
sent. All of it is decided from the live object and the rules: a crash between two steps, a restart or another daemon
changes nothing. When the reason goes (the autoscaler is deleted, the other manager gives the field up), Git's value is
applied.

The file of a unit on the status branch lists such fields under `leftToOthers`.

- Scaling an object whose replicas nobody owns leaves no trace in `managedFields`. So all HorizontalPodAutoscalers of a
  cluster are watched, where Git declares replicas at all. Without the right to list them, only those in Git are known,
  and others by what they own.
- A rule marked *while scaled* ends with the autoscaler, though its last write is still in `managedFields`.
- Fields that Git does not declare are nobody's to take back: they stay, and what people added is told as *unmanaged
  additions* ([drift.md](drift.md)). What these managers add is not: {controllers}.
  A table's `controllers` names more.
- Where fields were left out after a look at the live object, the apply carries its resourceVersion: what somebody takes
  in between is not overwritten.
- When Git drops a block of which another manager owns a part, that part would stay, and the API server may refuse what
  is left. The refusal then names what would stay, and whose it is.
"""


def ownership_page() -> str:
    controllers = ", ".join(f"`{name}`" for table in Ownership.shipped().tables for name in table.spec.controllers)
    lines = ["# Whose a field is", "", _MADE, _INTRODUCTION.replace("{controllers}", controllers)]
    lines += ["## Handovers", "", "| kind | field | whose, and while |", "|---|---|---|"]
    shipped = Ownership.shipped()
    for scaler in shipped.scalers.values():
        lines.append(f"| what `{scaler.target}` names | `/spec/replicas` | a {scaler.kind}.{scaler.group} targets it |")
    for name, operator in sorted(OperatorRegistry.shipped().types.items()):
        for each in operator.spec.handovers:
            whose = f"{each.holder}, while `{each.when}` ({name})"
            lines.append(f"| {each.kind}.{each.group} | `{each.path}` | {whose} |")
    lines += ["", "## Shipped rules, in their order", "", "| rule | managers | kinds | fields | answer |"]
    lines += ["|---|---|---|---|---|", *(_row(rule) for table in shipped.tables for rule in table.spec.rules)]
    return "\n".join(lines) + "\n"


def _row(rule: OwnershipRule) -> str:
    managers = ", ".join(f"`{name}`" for name in rule.managers)
    through = f" through `{rule.subresource}`" if rule.subresource else ""
    kinds = ", ".join(f"{k.kind}.{k.group}" if k.group else k.kind for k in rule.kinds) or "all"
    fields = ", ".join(f"`{path}`" for path in rule.paths) or "all"
    scaled = " while scaled" if rule.whileScaled else ""
    return f"| {rule.id} | {managers}{through} | {kinds} | {fields} | {rule.answer}{scaled} |"
