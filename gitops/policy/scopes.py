"""Scope of Kubernetes' own kinds, for compiling without a cluster. Discovery of the real cluster has the last word.

From the API resources of Kubernetes 1.34 (`kubectl api-resources`), without review-only kinds, which nobody declares.
"""

from __future__ import annotations

from gitops.model.identity import GroupKind

_CLUSTER_SCOPED: dict[str, str] = {
    "": "Namespace Node PersistentVolume",
    "admissionregistration.k8s.io": "MutatingWebhookConfiguration ValidatingWebhookConfiguration "
    "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
    "apiextensions.k8s.io": "CustomResourceDefinition",
    "apiregistration.k8s.io": "APIService",
    "certificates.k8s.io": "CertificateSigningRequest ClusterTrustBundle",
    "flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
    "networking.k8s.io": "IngressClass IPAddress ServiceCIDR",
    "node.k8s.io": "RuntimeClass",
    "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding",
    "resource.k8s.io": "DeviceClass ResourceSlice DeviceTaintRule",
    "scheduling.k8s.io": "PriorityClass",
    "storage.k8s.io": "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
}

_NAMESPACED: dict[str, str] = {
    "": "ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController "
    "ResourceQuota Secret Service ServiceAccount",
    "apps": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling": "HorizontalPodAutoscaler",
    "batch": "CronJob Job",
    "coordination.k8s.io": "Lease LeaseCandidate",
    "discovery.k8s.io": "EndpointSlice",
    "events.k8s.io": "Event",
    "networking.k8s.io": "Ingress NetworkPolicy",
    "policy": "PodDisruptionBudget",
    "rbac.authorization.k8s.io": "Role RoleBinding",
    "resource.k8s.io": "ResourceClaim ResourceClaimTemplate",
    "storage.k8s.io": "CSIStorageCapacity",
}

_SCOPES: dict[GroupKind, bool] = {
    GroupKind(group, kind): namespaced
    for table, namespaced in ((_CLUSTER_SCOPED, False), (_NAMESPACED, True))
    for group, kinds in table.items()
    for kind in kinds.split()
}


def builtin_namespaced(kind: GroupKind) -> bool | None:
    """Whether objects of one of Kubernetes' own kinds live in a namespace; None for a kind that is not one."""
    return _SCOPES.get(kind)


def namespaced_builtins() -> frozenset[GroupKind]:
    """Kubernetes' own kinds that live in namespaces."""
    return frozenset(kind for kind, namespaced in _SCOPES.items() if namespaced)


def is_builtin_group(group: str) -> bool:
    """Whether a group is one of Kubernetes' own (every other kind is a custom resource)."""
    return group in _CLUSTER_SCOPED or group in _NAMESPACED
