"""Kinds of Kubernetes that the reconciler itself reads or writes, at the versions it does so."""

from __future__ import annotations

from gitops.model.identity import GroupVersionKind

API_SERVICE = GroupVersionKind("apiregistration.k8s.io", "v1", "APIService")
CLAIM = GroupVersionKind("", "v1", "PersistentVolumeClaim")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
ENDPOINT_SLICE = GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice")
LEASE = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
SECRET = GroupVersionKind("", "v1", "Secret")
SERVICE = GroupVersionKind("", "v1", "Service")
SERVICE_ACCOUNT = GroupVersionKind("", "v1", "ServiceAccount")
STATEFUL_SET = GroupVersionKind("apps", "v1", "StatefulSet")
STORAGE_CLASS = GroupVersionKind("storage.k8s.io", "v1", "StorageClass")
VOLUME = GroupVersionKind("", "v1", "PersistentVolume")
