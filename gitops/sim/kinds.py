"""The resources that the played operators read and write."""

from __future__ import annotations

from gitops.sim.api import Kind

GRAPH = Kind("nvidia.com/v1beta1", "DynamoGraphDeployment", "dynamographdeployments")
COMPONENT = Kind("nvidia.com/v1beta1", "DynamoComponentDeployment", "dynamocomponentdeployments")
NIM_SERVICE = Kind("apps.nvidia.com/v1alpha1", "NIMService", "nimservices")
NIM_CACHE = Kind("apps.nvidia.com/v1alpha1", "NIMCache", "nimcaches")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
JOB = Kind("batch/v1", "Job", "jobs")
SERVICE = Kind("v1", "Service", "services")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUME = Kind("v1", "PersistentVolume", "persistentvolumes", namespaced=False)
DEFINITION = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
