"""Objects that refuse their update for good: told with the fields, and made anew where their author allows that.

Nothing is deleted without: the annotation on this object, a dry run that proves that what Git declares would be taken,
the proof that every delete needs (gitops/plan/pruning.py), and the word in the parent that it is done for this content.
After a crash in between the object is simply missing, and is made as any that is.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Any

from gitops.cluster import fields
from gitops.cluster.earlier import earlier_state
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.managed_fields import ElementKind, OwnedPath
from gitops.cluster.objects import DeleteResult, Propagation
from gitops.manifests.lines import Path, dotted
from gitops.plan import immutable, once
from gitops.plan.data_held import data_held
from gitops.plan.parents import applyset_id, parent_name
from gitops.plan.planning import Apply, Reason
from gitops.plan.pruning import Verdict, decide_prune
from gitops.plan.units import DesiredObject, Stage
from gitops.policy import codes
from gitops.policy.annotations import ALLOW_DELETE
from gitops.policy.registry import OperatorRegistry
from gitops.policy.updates import update_problems
from gitops.reconcile.attempts import Attempt, Recreation
from gitops.reconcile.state import ClusterState

_log = logging.getLogger(__name__)


class Recreator:
    """Of one cluster. `may_write` is False as soon as another daemon may be writing."""

    def __init__(self, state: ClusterState, registry: OperatorRegistry, *, may_write: Callable[[], bool]) -> None:
        self._state = state
        self._registry = registry
        self._may_write = may_write

    async def refused(self, run: Attempt, step: Apply, error: ApiError) -> None:
        """An update was refused: tell it, or plan to make the object anew."""
        desired = step.object
        # A copy of a Secret has no author here who could allow it.
        candidate = _may_be_immutable(error) and desired.stage is not Stage.SECRETS
        live = await run.applier.get(desired.gvk, desired.ref) if candidate else None
        if live is None or isinstance(live, ApiError):
            run.fail(desired, error)
            return
        named = self._named(desired, live, error)
        if not named or (await run.applier.apply(immutable.under_another_name(desired), dry_run=True)).error:
            run.fail(desired, error)
            return
        recreation, why_not = self._allowed(run, step, live)
        if recreation is not None:
            run.recreations.append(recreation)
            run.stopped.add(desired.component)
        else:
            sentence = immutable.sentence(desired, named, holds=self._holds(desired, live), why_not=why_not)
            run.needs_recreate(desired, sentence, error)

    def _holds(self, desired: DesiredObject, live: dict[str, Any]) -> str:
        return data_held(desired.ref.group_kind, live, registry=self._registry, manager=self._state.manager)

    def _named(self, desired: DesiredObject, live: dict[str, Any], error: ApiError) -> tuple[str, ...]:
        body = desired.body
        compared = fields.compare(body, live, self._state.manager)
        if error.cls is not ErrorClass.DENIED:
            changed = [*(d.path for d in compared.differences), *(_path(owned) for owned in compared.extra)]
            return immutable.fields_in_the_way([(c.reason, c.field) for c in error.causes], changed)
        # A webhook says no in words of its own: only what the rules of the operator name is sure to be for good.
        before = earlier_state(body, live, compared)
        problems = update_problems(self._registry, desired.ref, before, body)
        return tuple(sorted({dotted(path) for code, _, path in problems if code == codes.NEEDS_NEW_OBJECT}))

    def _allowed(self, run: Attempt, step: Apply, live: dict[str, Any]) -> tuple[Recreation | None, str]:
        """The recreation; or None and why not, "" when its declaration does not ask for it."""
        desired, uid = step.object, str(live["metadata"]["uid"])
        holds = self._holds(desired, live)
        if not immutable.recreates(desired, holds=holds):
            return None, ""
        if step.reason is Reason.DRIFT:
            return None, "somebody else made it so, and only what Git changes is made anew by itself"
        if once.recreated(run.words, desired, uid):
            return None, "it was made anew for this content once already, and somebody made another"
        members = self._state.parents[run.unit.key].members if run.unit.key in self._state.parents else ()
        member = next((m for m in members if m.ref == desired.ref), None)
        if member is None or member.uid != uid:
            return None, "its uid is not that of the object that was made here"
        decision = decide_prune(
            member,
            _consenting(desired, live),
            applyset=applyset_id(parent_name(run.unit.key)),
            reconciler=self._state.reconciler,
            manager=self._state.manager,
            declared=(),
            holds=holds,
        )
        if decision.verdict is not Verdict.DELETE:
            return None, decision.reason or str(decision.verdict)
        return Recreation(desired, uid, decision.resource_version), ""

    async def delete(self, run: Attempt, recreation: Recreation) -> None:
        """Delete one object, of which the parent says so by now; it is made when it is gone."""
        desired = recreation.object
        found = self._state.declared(desired.ref)
        if found is None or found[1].digest != desired.digest:
            run.look_again = True
            return
        outcome = await run.applier.delete(
            desired.gvk,
            desired.ref,
            uid=recreation.uid,
            resource_version=recreation.resource_version,
            propagation=_propagation(desired),
            wanted=self._may_write,
        )
        if outcome.error is not None:
            run.fail(desired, outcome.error)
            return
        _log.warning(
            "deleted %s to make it anew: fields changed that are immutable, and it is annotated so", desired.ref
        )
        record = self._state.record(desired)
        if outcome.result is DeleteResult.DELETING:
            record.deleting = True
            held = f", held by {outcome.finalizers[0]}" if outcome.finalizers else ""
            run.waits(desired, f"it is being deleted to be made anew{held}")
            return
        self._state.objects.pop(desired.ref, None)
        self._state.by_uid.pop(recreation.uid, None)
        run.look_again = True


def _may_be_immutable(error: ApiError) -> bool:
    return (error.cls is ErrorClass.REFUSED and error.status == 422) or error.cls is ErrorClass.DENIED


def _path(owned: OwnedPath) -> Path:
    """What can be said of a path that is no longer declared: the keys down to the first list."""
    keys = itertools.takewhile(lambda element: element.kind is ElementKind.FIELD, owned)
    return tuple(str(element.value) for element in keys)


def _propagation(desired: DesiredObject) -> Propagation:
    """Children go first, so that none of the old ones meets the new object; pods of a StatefulSet stay, since the new
    one adopts them by its selector."""
    kind = desired.ref.group_kind
    return "Orphan" if (kind.group, kind.kind) == immutable.STATEFUL_SET else "Foreground"


def _consenting(desired: DesiredObject, live: dict[str, Any]) -> dict[str, Any]:
    """The live object with the consent that its declaration gives: the refused update would have brought it."""
    declared = desired.body["metadata"].get("annotations", {}).get(ALLOW_DELETE)
    metadata = live["metadata"]
    annotations = {**(metadata.get("annotations") or {}), **({ALLOW_DELETE: declared} if declared else {})}
    return {**live, "metadata": {**metadata, "annotations": annotations}}
