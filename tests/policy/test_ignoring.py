"""gitops/ignore-drift: which fields of an object it means, and what it may not mean."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.policy.annotations import IGNORE_DRIFT, BadAnnotationError, parse_paths, read_wishes
from gitops.policy.ignoring import ignored

CONTAINERS = ("spec", "template", "spec", "containers")


def body(text: str) -> dict[str, Any]:
    containers = [{"name": "web", "image": "a", "args": ["x"]}, {"name": "side", "image": "b"}]
    template = {
        "metadata": {"annotations": {"example.com/rolled": "1", "a~b": "2"}},
        "spec": {"containers": containers},
    }
    metadata = {"name": "web", "annotations": {IGNORE_DRIFT: text}}
    return {"kind": "Deployment", "metadata": metadata, "spec": {"replicas": 1, "template": template}}


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("/spec/replicas", [("spec", "replicas")]),
        ("/spec/replicas, /spec/paused", [("spec", "replicas")]),
        ("/spec/template/spec/containers/*/image", [(*CONTAINERS, 0, "image"), (*CONTAINERS, 1, "image")]),
        ("/spec/template/spec/containers/side/image", [(*CONTAINERS, 1, "image")]),
        ("/spec/template/spec/containers/gone/image", []),
        ("/spec/template/spec/containers/web/args", [(*CONTAINERS, 0, "args")]),
        ("/spec/template/spec/containers/*", []),
        ("/spec/template/spec/containers/web/args/*", []),
        (
            "/spec/template/metadata/annotations/*",
            [("spec", "template", "metadata", "annotations", key) for key in ("example.com/rolled", "a~b")],
        ),
        (
            "/spec/template/metadata/annotations/example.com~1rolled,/spec/template/metadata/annotations/a~0b",
            [("spec", "template", "metadata", "annotations", key) for key in ("example.com/rolled", "a~b")],
        ),
        ("spec.replicas", []),
    ],
)
def test_the_fields_that_are_meant(text: str, fields: list[Any]) -> None:
    assert list(ignored(body(text))) == fields


def test_without_the_annotation_nothing_is() -> None:
    assert list(ignored({"kind": "ConfigMap", "metadata": {"name": "a"}})) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "spec.replicas",
        "/spec//replicas",
        "/spec/replicas,",
        "/",
        "/kind",
        "/apiVersion",
        "/status/phase",
        "/*/replicas",
        "/metadata",
        "/metadata/name",
        "/metadata/labels",
        "/metadata/labels/*",
        "/metadata/labels/gitops~1reconciler",
        "/metadata/annotations/gitops~1ignore-drift",
        "/metadata/labels/applyset.kubernetes.io~1part-of",
        "/spec/template/spec/containers/*/name",
        "/spec/" + "a" * 5000,
    ],
)
def test_what_it_may_not_mean_is_refused(text: str) -> None:
    with pytest.raises(BadAnnotationError):
        parse_paths(text)
    assert [key for key, _ in read_wishes({IGNORE_DRIFT: text}).problems] == [IGNORE_DRIFT]
