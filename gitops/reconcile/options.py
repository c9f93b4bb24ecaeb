"""What the engine is told: limits and pauses, each with its unit, default and reason."""

from __future__ import annotations

from dataclasses import dataclass, field

from gitops.cluster.leases import LeaseTimes
from gitops.plan.pruning import FuseLimits
from gitops.reconcile.fights import FightLimits


@dataclass(frozen=True, slots=True)
class EngineOptions:
    identity: str
    """Who holds the Lease: host name and a random part, so that two daemons on one host differ."""

    poll_interval: float = 60.0
    """Seconds between fetches that nothing asked for; a push signal fetches at once."""

    poll_jitter: float = 10.0
    """Seconds; daemons started together must not fetch together."""

    parallel_units: int = 16
    """Units worked on at a time on one cluster: the API server saturates at about 4 requests in flight, the rest hides
    the gaps between a unit's stages."""

    requests_in_flight: int = 8
    """Requests in flight to one cluster, watches not counted."""

    first_contact: float = 5.0
    """Seconds to wait at start for every cluster's parents, which pin instances to clusters; one that does not answer
    in time must not keep the others waiting."""

    first_look: float = 15.0
    """Seconds after the start, or after another daemon's Lease became ours, for which status waits until what can be
    reached has been looked at: "unknown" must not be written over what files say, only to be taken back a moment
    later."""

    status_debounce: float = 0.5
    """Seconds to collect changes before a status commit."""

    status_interval: float = 10.0
    """Seconds between status commits."""

    shutdown: float = 10.0
    """Seconds until what still runs is cancelled."""

    audit_interval: float = 43200.0
    """Seconds between audits of one cluster: what a watch may have kept from us is listed (auditing.py)."""

    audit_sample: int = 20
    """Objects of which an audit proves by a dry run that an apply would change nothing: two calls each."""

    deletion_deadline: float = 600.0
    """Seconds after which a deletion that somebody holds is told as blocked, and looked at more rarely."""

    lease: LeaseTimes = field(default_factory=LeaseTimes)
    fuse: FuseLimits = field(default_factory=FuseLimits)
    fights: FightLimits = field(default_factory=FightLimits)
