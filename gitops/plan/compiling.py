"""Compile a tree into units: the same code in the daemon, the command line, CI and previews.

Pure but for reading the tree. All findings of all files are collected; a workload with errors is held and never stops
another. A Compiler lives long and keeps, for each workload, what the last trees gave: a commit that changes one file
parses, merges and judges that workload only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gitops.model.catalogue import finding
from gitops.model.clusters import Cluster
from gitops.model.findings import Origin
from gitops.model.identity import ClusterName, GroupVersionKind, WorkloadKind, WorkloadRef
from gitops.model.repositories import Repository
from gitops.model.trees import FileTree
from gitops.plan import codes
from gitops.plan.bundles import BundleSource, ask_bundle, compile_bundle, plan_bundle, read_bundle
from gitops.plan.clusters import same_credentials, usable_cluster
from gitops.plan.crosschecks import check_capacity, check_places, check_units
from gitops.plan.explaining import Trace
from gitops.plan.function_sources import FunctionSource, read_function
from gitops.plan.functions import compile_function
from gitops.plan.gathering import Run
from gitops.plan.installs import Installs, read_installs
from gitops.plan.instances import ask_function, plan_function
from gitops.plan.layout import REPOSITORY_FILE, Layout, WorkloadFolder, read_layout
from gitops.plan.loading import Loader
from gitops.plan.placing import MOST_INSTANCES, too_many
from gitops.plan.remembering import Inputs, Memory, cache_key, together
from gitops.plan.repository_policies import read_policies
from gitops.plan.scoping import Scoping
from gitops.plan.tasks import TaskSource, ask_task, compile_task, plan_task, read_task
from gitops.plan.units import Compilation
from gitops.plan.validating import Validator
from gitops.plan.workloads import ClusterEntry, Context, Demand, WorkloadResult
from gitops.policy.allocation import Ask, Decision, Placed, allocate, keep
from gitops.policy.facts import NO_FACTS, Facts
from gitops.policy.placement import NO_PINS, Pins
from gitops.policy.published import NOTHING_PUBLISHED, Published
from gitops.policy.registry import OperatorRegistry

SOURCES_KEPT = 128
"""Workload documents kept parsed for when only pins or clusters move; a model takes ten times what its text takes."""


Source = FunctionSource | TaskSource | BundleSource

_ASKERS: Mapping[WorkloadKind, Callable[[Context, Any, Pins], tuple[Ask, ...]]] = {
    WorkloadKind.FUNCTION: ask_function,
    WorkloadKind.TASK: ask_task,
    WorkloadKind.BUNDLE: ask_bundle,
}

_READERS: Mapping[WorkloadKind, Callable[[Context, WorkloadFolder], Source]] = {
    WorkloadKind.FUNCTION: read_function,
    WorkloadKind.TASK: read_task,
    WorkloadKind.BUNDLE: read_bundle,
}


@dataclass(slots=True)
class Statistics:
    """What the caches did not save: counts since the start."""

    compiled: int = 0  # workloads whose manifests were read and merged


class Compiler:
    """Compiles one tree after another; not thread-safe."""

    def __init__(self, registry: OperatorRegistry, files: Published = NOTHING_PUBLISHED) -> None:
        """`files` have schemas for what clusters do not tell."""
        self.registry = registry
        self._validator = Validator(files)
        self._scoping = Scoping()
        self._loader = Loader()
        self._sources: OrderedDict[tuple[WorkloadRef, bytes], Source] = OrderedDict()
        self._results: OrderedDict[tuple[WorkloadRef, bytes], WorkloadResult] = OrderedDict()
        self._latest: dict[WorkloadRef, Memory] = {}
        self._kinds: dict[tuple[WorkloadRef, bytes], frozenset[GroupVersionKind]] = {}
        self.statistics = Statistics()

    @property
    def parsed(self) -> int:
        """Files parsed since the start."""
        return self._loader.parsed

    def compile(
        self,
        tree: FileTree,
        *,
        pins: Pins = NO_PINS,
        unheard: frozenset[ClusterName] = frozenset(),
        facts: Facts | None = None,
        only: frozenset[WorkloadRef] | None = None,
        trace: Trace | None = None,
    ) -> Compilation:
        """Compile a tree. `pins` say where instances live now; `unheard` are clusters whose pins are not known: what
        may live there is not placed elsewhere. `facts` are what clusters tell of themselves; without them no verdict is
        given on any object, and nothing is said of that. With `only`, other workloads are left out (their absence from
        the result then means nothing). A `trace` is filled with what is merged anew; of a new Compiler, with
        everything."""
        layout = read_layout(tree.entries())
        run = Run(layout)
        repository = self._repository(tree, layout, run)
        told = NO_FACTS if facts is None else facts
        context, installs = self._context(tree, layout, repository, run, unheard, told)
        context = replace(context, trace=trace)
        inputs = Inputs.of(context, layout, pins)
        total = 0
        memories: dict[WorkloadRef, Memory] = {}
        for ref, folder in layout.workloads.items():
            if only is not None and ref not in only:
                continue
            if ref in layout.unreadable:
                run.held.add(ref)
            elif ref.kind is WorkloadKind.OPERATOR:
                run.add(ref, WorkloadResult(findings=installs.findings[ref]))
            else:
                memory = self._remembered(context, folder, inputs, room=MOST_INSTANCES - total)
                memories[ref] = memory
                total += memory.size
        demands: list[Demand] = []
        for ref, decisions in together(context, memories, pins, unreadable=layout.unreadable).items():
            memory = self._settled(context, layout.workloads[ref], memories[ref], decisions, inputs)
            run.add(ref, memory.result)
            run.decisions[ref] = memory.decisions
            if ref not in run.left_alone:
                demands += memory.result.demands
        if only is None and repository is not None:
            run.check_not_empty(layout, repository, context)
        run.scoped(self._scoping, told)
        collisions = check_units(u for units in run.units.values() for u in units)
        run.findings += collisions
        run.collided(f.workload for f in collisions if f.workload is not None)
        run.findings += check_places(u for units in run.units.values() for u in units)
        run.findings += check_capacity(demands, context.clusters)
        if facts is not None and repository is not None:
            places = {name: Origin(entry.file) for name, entry in context.clusters.items()}
            run.validated(self._validator.validate(run.sound(), run.doubtful(), facts, places))
        self._forget(len(layout.workloads))
        if repository is None:
            return run.incomplete(tree)
        return run.compilation(tree, repository, context)

    def _remembered(self, context: Context, folder: WorkloadFolder, inputs: Inputs, *, room: int) -> Memory:
        """A workload as if it were alone: what it asks for, and what it then is. From the last time when nothing that
        it is made from has changed. `room` is how many instances it may have at most."""
        known = self._latest.get(folder.ref)
        mine = inputs.of_workload(folder)
        if known is not None and known.inputs == mine and known.room == (room if known.asked > room else None):
            return known
        failed = self._loader.failed
        asks = _ASKERS[folder.ref.kind](context, self._source(context, folder), inputs.pins)
        asked = sum(ask.size for ask in asks) if folder.ref.kind is not WorkloadKind.BUNDLE else 0
        if asked > room:
            asks = tuple(replace(ask, unheard=frozenset()) for ask in asks)  # what is silent would be as many again
            alone = tuple(Decision(ask, Placed(keep(ask))) for ask in asks)
            nowhere = tuple(Decision(replace(ask, count=0), Placed()) for ask in asks)
            result = self._workload(context, folder, nowhere, inputs)
            result = replace(result, units=(), demands=(), findings=(*result.findings, too_many(folder, asked, room)))
        else:
            places = allocate(asks)
            alone = tuple(Decision(ask, places[ask.workload, ask.spec_id]) for ask in asks)
            result = self._workload(context, folder, alone, inputs)
        memory = Memory.of(mine, alone, result, asked, room)
        self._latest[folder.ref] = memory
        if self._loader.failed != failed:
            self._drop(folder.ref)
        return memory

    def _settled(
        self, context: Context, folder: WorkloadFolder, memory: Memory, decisions: tuple[Decision, ...], inputs: Inputs
    ) -> Memory:
        """The workload in these places; what it is in others than the last time is made anew."""
        if decisions == memory.decisions:
            return memory
        failed = self._loader.failed
        result = memory.first if decisions == memory.alone else self._workload(context, folder, decisions, inputs)
        settled = replace(memory, decisions=decisions, result=result)
        if self._latest.get(folder.ref) is memory:
            self._latest[folder.ref] = settled
        if self._loader.failed != failed:
            self._drop(folder.ref)
        return settled

    def _repository(self, tree: FileTree, layout: Layout, run: Run) -> Repository | None:
        if layout.repository is None:
            message = f"there is no {REPOSITORY_FILE} at the root of the repository"
            run.findings.append(finding(codes.NO_REPOSITORY, message, Origin(REPOSITORY_FILE)))
            return None
        _, repository, found = self._loader.load_one(tree, layout.repository, Repository)
        run.findings += found
        if repository is None:
            message = f"{REPOSITORY_FILE} cannot be used"
            run.findings.append(finding(codes.NO_REPOSITORY, message, Origin(REPOSITORY_FILE)))
        return repository

    def _context(
        self,
        tree: FileTree,
        layout: Layout,
        repository: Repository | None,
        run: Run,
        unheard: frozenset[ClusterName],
        facts: Facts,
    ) -> tuple[Context, Installs]:
        policies = read_policies(self._loader, tree, layout.policies, self.registry)
        run.findings += policies.findings
        run.policies_usable = policies.usable and layout.policies_whole
        clusters: dict[str, ClusterEntry] = {}
        broken = set(layout.broken_clusters)
        for name, entry in layout.clusters.items():
            document, cluster, found = self._loader.load_one(tree, entry, Cluster)
            run.findings += found
            if document is None or cluster is None:
                broken.add(name)
                continue
            usable, problems = usable_cluster(
                document, cluster, name=name, repository=repository, registry=policies.registry
            )
            run.findings += problems
            if usable is None:
                broken.add(name)
            else:
                clusters[name] = usable
        for name, told in same_credentials(clusters).items():
            run.findings.append(told)
            broken.add(name)
            del clusters[name]
        context = Context(
            tree=tree,
            loader=self._loader,
            registry=policies.registry,
            reconciler=repository.metadata.name if repository is not None else "",
            clusters=clusters,
            unreadable=frozenset(broken - clusters.keys()),
            unheard=unheard,
            validation=policies.validation,
            facts=facts,
            kinds=self._kinds,
        )
        folders = {r: f for r, f in layout.workloads.items() if r.kind is WorkloadKind.OPERATOR}
        installs = read_installs(context, {r: f for r, f in folders.items() if r not in layout.unreadable})
        unusable = installs.unusable | layout.broken_installs
        return replace(context, versions=installs.versions, unusable_installs=unusable), installs

    def _workload(
        self, context: Context, folder: WorkloadFolder, decisions: tuple[Decision, ...], inputs: Inputs
    ) -> WorkloadResult:
        """From the cache when the folder, its placement and all that its units are made from are as before."""
        source = self._source(context, folder)
        if isinstance(source, FunctionSource):
            planned = plan_function(context, source, decisions, inputs.pins)
            keys = [(i.key, i.content_key) for i in planned.instances]
            demands = [i.demand for i in planned.instances]
            key = cache_key(context, folder, keys, planned.findings, planned.kept, demands)
            return self._cached(key) or self._keep(key, compile_function(context, source, planned))
        if isinstance(source, TaskSource):
            chosen = plan_task(context, source, decisions)
            key = cache_key(context, folder, chosen.units, chosen.findings, chosen.kept, chosen.demands)
            return self._cached(key) or self._keep(key, compile_task(context, source, chosen))
        selected = plan_bundle(context, source, decisions)
        key = cache_key(context, folder, selected.units, selected.findings, selected.kept)
        return self._cached(key) or self._keep(key, compile_bundle(context, source, selected))

    def _cached(self, key: tuple[WorkloadRef, bytes]) -> WorkloadResult | None:
        found = self._results.get(key)
        if found is not None:
            self._results.move_to_end(key)
        return found

    def _keep(self, key: tuple[WorkloadRef, bytes], result: WorkloadResult) -> WorkloadResult:
        self._results[key] = result
        self.statistics.compiled += 1
        return result

    def _source(self, context: Context, folder: WorkloadFolder) -> Source:
        key = (folder.ref, folder.content)
        source = self._sources.get(key)
        if source is None:
            source = self._sources[key] = _READERS[folder.ref.kind](context, folder)
        else:
            self._sources.move_to_end(key)
        return source

    def _drop(self, ref: WorkloadRef) -> None:
        """Forget what was made of a workload: a file that could not be read now may be read the next time."""
        self._latest.pop(ref, None)
        for key in [key for key in self._sources if key[0] == ref]:
            del self._sources[key]
        for key in [key for key in self._results if key[0] == ref]:
            del self._results[key]
        for key in [key for key in self._kinds if key[0] == ref]:
            del self._kinds[key]

    def _forget(self, workloads: int) -> None:
        """Keep the head, and a little of what went before: a revert or a preview needs it again."""
        limit = workloads + 64
        # In a shortage a workload has two results, alone and in its places; its memory holds both anyway.
        twice = sum(memory.first is not memory.result for memory in self._latest.values())
        for cache, most in ((self._sources, SOURCES_KEPT), (self._results, limit + twice)):
            while len(cache) > most:
                cache.popitem(last=False)
        if len(self._latest) > limit:
            self._latest.clear()
        if len(self._kinds) > limit:
            self._kinds.clear()
