"""Quantities as the API server prints them. quantities.tsv was printed by Kubernetes' own resource.ParseQuantity."""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gitops.manifests.quantities import NotAQuantityError, canonical_quantity, canonical_resources, equal_quantities

LINES = (Path(__file__).parent / "quantities.tsv").read_text(encoding="utf-8").splitlines()[1:]
TABLE = [line.split("\t") for line in LINES]


def test_the_table_is_there():
    assert len(TABLE) > 350


@pytest.mark.parametrize(("text", "printed"), TABLE)
def test_as_printed_by_kubernetes(text, printed):
    if printed:
        assert canonical_quantity(text) == printed
    else:
        with pytest.raises(NotAQuantityError):
            canonical_quantity(text)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "1"),
        (0, "0"),
        (0.5, "500m"),
        (1000, "1k"),
        (-2, "-2"),
        (2.5, "2500m"),
        (1e-05, "10u"),  # Go prints 0.00001, Python 1e-05, whose form the server would keep
        (1e-07, "100e-9"),
    ],
)
def test_numbers(number, text):
    assert canonical_quantity(number) == text


@pytest.mark.parametrize(
    "text", ["", " ", " 1", "1 ", ".", "-", "m", "Gi", "1" * 70, "10E", "8Ei", "1e100", "1e999999999", "١", True, False]
)
def test_no_quantity_or_beyond_64_bits(text):
    with pytest.raises(NotAQuantityError):
        canonical_quantity(text)
    assert not equal_quantities(text, text)


@pytest.mark.parametrize(
    ("a", "b"),
    [("1000m", "1"), ("12000m", 12), ("0.5", "500m"), ("1000M", "1G"), (4, "4"), ("1Gi", "1024Mi"), ("1e3", "1k")],
)
def test_s11_equal_quantities(a, b):
    assert equal_quantities(a, b)
    assert not equal_quantities(a, "3")


_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "Ki": 0, "Mi": 0, "Gi": 0, "Ti": 0}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def size(text: str) -> Decimal:
    """The size of a quantity, computed independently."""
    number = text.rstrip("numkKMGTPEi") if "e" not in text.lower() else text
    suffix = text[len(number) :]
    return Decimal(number) * Decimal(10) ** _SUFFIXES.get(suffix, 0) * _BINARY.get(suffix, 1)


_TEXTS = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 99_999),
    st.sampled_from(["", "."]) | st.integers(0, 9_999).map(".{}".format),
    st.sampled_from(list(_SUFFIXES)),
)


@given(_TEXTS)
def test_value_is_kept_or_rounded_away_from_zero_below_nano(text):
    before, after = size(text), size(canonical_quantity(text))
    assert abs(after) >= abs(before)
    assert abs(after - before) < Decimal("1e-9")
    assert equal_quantities(text, canonical_quantity(text))


@given(_TEXTS)
def test_canonical_form_is_stable(text):
    once = canonical_quantity(text)
    assert canonical_quantity(once) == once


@given(_TEXTS, _TEXTS)
def test_equal_means_equal_size(a, b):
    assume(abs(size(a) - size(b)) == 0 or abs(size(a) - size(b)) > Decimal("1e-8"))
    assert equal_quantities(a, b) == (size(a) == size(b))


def test_resource_lists_of_custom_resources_become_text():
    body = {
        "kind": "NIMService",
        "spec": {
            "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "1000m"}, "requests": {"memory": "1024Mi"}},
            "storage": {"pvc": {"size": "1024Mi"}},
            "volumes": [{"name": "shm", "emptyDir": {"sizeLimit": 1024}}],
        },
    }
    result = canonical_resources(body)
    assert result["spec"] == {
        "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "1"}, "requests": {"memory": "1Gi"}},
        "storage": {"pvc": {"size": "1024Mi"}},
        "volumes": [{"name": "shm", "emptyDir": {"sizeLimit": "1024"}}],
    }
    assert body["spec"]["resources"]["limits"]["nvidia.com/gpu"] == 1


def test_dynamo_graphs_of_both_versions():
    alpha = {"spec": {"services": {"w": {"resources": {"limits": {"gpu": 1, "cpu": "10", "custom": {"x/y": 2}}}}}}}
    limits = canonical_resources(alpha)["spec"]["services"]["w"]["resources"]["limits"]
    assert limits == {"gpu": "1", "cpu": "10", "custom": {"x/y": "2"}}
    beta = {
        "spec": {"components": [{"podTemplate": {"spec": {"containers": [{"resources": {"limits": {"cpu": 0.5}}}]}}}]}
    }
    container = canonical_resources(beta)["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]
    assert container["resources"] == {"limits": {"cpu": "500m"}}


@pytest.mark.parametrize(
    "body",
    [
        {"spec": {"limits": {"requestsPerSecond": 10, "burst": 0.5}}},
        {"spec": {"limits": 5, "requests": [1, 2]}},
        {"spec": {"resources": {"limits": {"cpu": True, "memory": "lots", "x/y": None}}}},
        {"spec": {"resources": {"limits": {}, "requests": {}}}},
        {"spec": {"default": {"cpu": 1}, "max": {"cpu": 2}}},
        {"spec": {"capacity": 3, "overhead": "1000m", "sizeLimit": "unlimited"}},
        {"data": {"limits": "cpu: 1000m"}},
        {"spec": {"target": {"type": ["Value"], "value": 1}}},
    ],
)
def test_what_is_no_resource_list_is_left_alone(body):
    assert canonical_resources(body) is body


def test_single_quantities_of_nvidia_kinds():
    body = {
        "spec": {
            "storage": {"sharedMemorySizeLimit": 1073741824, "pvc": {"size": "1024Mi"}},
            "sharedMemory": {"size": "2048Mi"},
            "scale": {"hpa": {"metrics": [{"pods": {"target": {"type": "AverageValue", "averageValue": 0.5}}}]}},
            "env": [{"valueFrom": {"resourceFieldRef": {"divisor": 1}}}],
            "routes": [{"target": {"value": 1}}],
        }
    }
    assert canonical_resources(body)["spec"] == {
        "storage": {"sharedMemorySizeLimit": "1073741824", "pvc": {"size": "1024Mi"}},
        "sharedMemory": {"size": "2Gi"},
        "scale": {"hpa": {"metrics": [{"pods": {"target": {"type": "AverageValue", "averageValue": "500m"}}}]}},
        "env": [{"valueFrom": {"resourceFieldRef": {"divisor": "1"}}}],
        "routes": [{"target": {"value": 1}}],
    }


def test_kinds_with_quantities_of_their_own():
    quota = {
        "kind": "ResourceQuota",
        "spec": {"hard": {"requests.nvidia.com/gpu": 8, "pods": 10, "count/jobs.batch": 5}},
    }
    assert canonical_resources(quota)["spec"]["hard"] == {
        "requests.nvidia.com/gpu": "8",
        "pods": "10",
        "count/jobs.batch": "5",
    }
    limits = {
        "kind": "LimitRange",
        "spec": {"limits": [{"type": "Container", "default": {"cpu": 1}, "max": {"cpu": "2000m"}}]},
    }
    assert canonical_resources(limits)["spec"]["limits"] == [
        {"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}
    ]


def test_canonical_resources_is_idempotent():
    body = {"spec": {"resources": {"limits": {"a.b/c": 1, "cpu": "1500m"}}}}
    once = canonical_resources(body)
    assert canonical_resources(once) is once


def test_a_nim_cache_has_its_resources_right_under_the_key() -> None:
    body = {"kind": "NIMCache", "spec": {"resources": {"cpu": 2, "memory": "8Gi"}}}
    assert canonical_resources(body)["spec"]["resources"] == {"cpu": "2", "memory": "8Gi"}
    other = {"kind": "Other", "spec": {"resources": {"cpu": 2}}}
    assert canonical_resources(other) == other
