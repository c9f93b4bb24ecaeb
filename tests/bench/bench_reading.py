"""Cost of reading and merging, in µs a document: `python tests/bench/bench_reading.py`. Prints, never asserts."""

from __future__ import annotations

import time
from collections.abc import Callable

from gitops.manifests.canonical import canonical_json, copy_json, digest
from gitops.manifests.quantities import canonical_resources
from gitops.manifests.reading import read_documents
from gitops.manifests.sanitizing import prepare_body
from gitops.overlays.applying import apply_patches
from gitops.overlays.patches import MergePatchSource
from gitops.overlays.provenance import Provenance

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: llama-chat
  labels:
    app.kubernetes.io/name: llama-chat
    team: serving
spec:
  replicas: 2
  selector:
    matchLabels:
      app.kubernetes.io/name: llama-chat
  template:
    metadata:
      labels:
        app.kubernetes.io/name: llama-chat
    spec:
      containers:
      - name: server
        image: registry.example/llama:1.2.3
        args: ["--port", "8000", "--model", "llama"]
        ports:
        - containerPort: 8000
          name: http
        env:
        - name: LOG_LEVEL
          value: info
        resources:
          limits:
            nvidia.com/gpu: 1
            memory: 64Gi
          requests:
            cpu: "4"
        readinessProbe:
          httpGet:
            path: /health
            port: 8000
          periodSeconds: 10
      tolerations:
      - key: nvidia.com/gpu
        operator: Exists
"""
PATCH = "spec:\n  replicas: 4\n  template:\n    spec:\n      nodeSelector:\n        gpu: h100\n"


def measure(name: str, action: Callable[[], object], *, count: int = 2_000) -> None:
    for _ in range(count // 10):
        action()
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        for _ in range(count):
            action()
        best = min(best, (time.perf_counter() - started) / count)
    print(f"{name:45} {best * 1e6:8.1f} µs")


def main() -> None:
    data = MANIFEST.encode()
    (document,) = read_documents(data, file="a.yaml").documents
    (patch,) = read_documents(PATCH.encode(), file="b.yaml").documents
    provenance = Provenance.of_document(document)
    source = MergePatchSource(patch.body, Provenance.of_document(patch))
    many = b"---\n".join([data] * 200)
    print(f"manifest of {len(data)} bytes; its line table {len(document.lines.blob)} bytes")
    measure("read_documents, a file with one document", lambda: read_documents(data, file="a.yaml"))
    measure("read_documents, a file with 200 (per file)", lambda: read_documents(many, file="a.yaml"), count=20)
    measure("prepare_body", lambda: prepare_body(document.body))
    measure("canonical_resources", lambda: canonical_resources(document.body))
    measure("copy_json", lambda: copy_json(document.body))
    measure("canonical_json", lambda: canonical_json(document.body))
    measure("digest", lambda: digest(document.body))
    measure("apply_patches, none", lambda: apply_patches(document.body, provenance, []))
    measure("apply_patches, one", lambda: apply_patches(document.body, provenance, [source]))


if __name__ == "__main__":
    main()
