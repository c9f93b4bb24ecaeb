"""What every part of the engine is given: options, shipped knowledge, clocks, and whom to tell."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from gitops.cluster.awake import AwakeClock
from gitops.policy.ownership import Ownership
from gitops.policy.published import NOTHING_PUBLISHED, Published
from gitops.policy.registry import OperatorRegistry
from gitops.readiness.mapping import Mappings
from gitops.reconcile.metrics import Metrics, NoMetrics
from gitops.reconcile.options import EngineOptions


@dataclass(frozen=True, slots=True)
class Context:
    """`clock` is monotonic seconds, `wall` seconds since the epoch. `awake` is monotonic too, and counts what passed
    while nothing ran."""

    options: EngineOptions
    registry: OperatorRegistry
    mappings: Mappings
    clock: Callable[[], float]
    wall: Callable[[], float]
    files: Published = NOTHING_PUBLISHED
    """Schemas that the settings name."""
    ownership: Ownership = field(default_factory=Ownership.shipped)
    """Whose a field is that others write too."""
    metrics: Metrics = field(default_factory=NoMetrics)
    rng: random.Random = field(default_factory=random.Random)
    awake: Callable[[], float] = field(default_factory=AwakeClock)

    def moment(self) -> datetime.datetime:
        """Now, in UTC."""
        return datetime.datetime.fromtimestamp(self.wall(), datetime.UTC)
