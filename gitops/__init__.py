"""A GitOps reconciler for GPU workloads. The folder list is the architecture: docs/architecture.md."""
