"""The fight breaker: two writers that undo each other must not load the API server for ever.

Each repair heats its object; heat decays with time. Above the limit the object is contested: it is reported and left
alone until it has cooled down, everything else stays enforced. (Config Sync counts the same way, KNV2005; Argo CD's and
kapp-controller's loops without such a brake: argo-cd#21599, kapp-controller#36.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FightLimits:
    """`limit` repairs at once make an object contested; heat halves every `half_life` seconds."""

    limit: float = 5.0
    half_life: float = 60.0


@dataclass(frozen=True, slots=True)
class Heat:
    value: float = 0.0
    at: float = 0.0  # seconds on the engine's clock

    def now(self, now: float, limits: FightLimits) -> float:
        return self.value * math.pow(0.5, max(0.0, now - self.at) / limits.half_life)

    def heated(self, now: float, limits: FightLimits) -> Heat:
        return Heat(self.now(now, limits) + 1.0, now)

    def contested_for(self, now: float, limits: FightLimits) -> float:
        """Seconds until the next repair is allowed; 0 when it is allowed now."""
        heat = self.now(now, limits)
        if heat < limits.limit:
            return 0.0
        return limits.half_life * math.log2(heat / (limits.limit - 0.5))


COLD = Heat()
"""Of an object that was never repaired: shared by nearly all."""
