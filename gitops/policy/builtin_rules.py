"""Rules about objects of built-in kinds, as operator types have them about theirs."""

from __future__ import annotations

from collections.abc import Iterator

from gitops.model.object_rules import TriggerField

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""What `kubectl rollout restart` writes into the pod template (kubectl, pkg/polymorphichelpers/objectrestarter.go): the
time of a deed, no state. Repaired, it would restart all pods a second time."""

_ROLLED_OUT = ("Deployment", "StatefulSet", "DaemonSet")


def restart_stamps() -> Iterator[TriggerField]:
    path = "/spec/template/metadata/annotations/" + RESTARTED_AT.replace("/", "~1")
    for kind in _ROLLED_OUT:
        yield TriggerField(
            group="apps",
            kind=kind,
            path=path,
            message="another value restarts the pods, once; on a new object there is nothing to restart",
            source="kubectl rollout restart",
        )
