"""Values that rules mind: at the edges of formats, types and sizes, and beyond them."""

from __future__ import annotations

from typing import Any

_PLAIN = (
    "", " ", "a b", "A_B", "UPPER", "-a", "a-", "a.b", "a/b", "a/b/c", ".", "é", "日本", "😀", "0", "true", "null", "x",
    "text", "first", "ABC", "-ABC", "a,b", "a,,b", "25%", "30%", "\\", '"', "'", "#", "%s", "${A}",
)  # fmt: skip
_CONTROLS = ("\t", "a\nb", "a\r\n", "a\u0000", "a\u007f", "a\u0085", "\ufeffa", "a\u2028")
_LONG = ("x" * 64, "x" * 254, "é" * 200, "a" * 5000)
_TIMES = (
    "2026-01-02T03:04:05Z", "2026-01-02t03:04:05z", "2026-01-02 03:04:05", "2026-01-02", "2026-13-01T00:00:00Z",
    "2026-01-02T03:04:05.123456789012Z", "2026-01-02T03:04:60Z", "2026-01-02T24:00:00Z", "2026-01-02T03:04:05",
    "2026-01-02T03:04:05+0100", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2019-01-01T00:00:00Z", "2026-02-30",
    "2024-02-29", "1h", "90m", "3h", "1d", "1ns", "-1h", "1.5h", "1 hour", "1h30m",
)  # fmt: skip
_ADDRESSES = (
    "10.0.0.1", "010.0.0.1", "127.0.0.1", "::1", "::ffff:10.0.0.1", "fe80::1%eth0", "10.0.0.0/8", "10.0.0.1/8",
    "10.0.0.0/33", "http://", "http:/x", "/path", "x:y", "http://a b", "http://u@h:1/p?q#f", "http://[::1]:80",
    "https://x:port/", "%zz", "https://x", "http://x/v1", "ftp://x", "a@b.c", "a@b", "A <a@b.c>", "a@[1.2.3.4]",
    "example.com", "exa_mple.com", "example.com.", "-x.com", "a.1", "01:23:45:67:89:ab", "01-23-45-67-89-AB",
    "0123.4567.89ab", "01:23:45",
)  # fmt: skip
_NUMBERED = (
    "1", "1.2.3", "01.2.3", "1.5.0-rc.1", "v1.2.3", "1.0.0+b", "1Gi", "2Gi", "YQ==", "YQ", "Y", "Y Q==", "YQ==\n",
    "_-8=",
    "YWFhYWFhYWFhYWFhYWFhYQ==", "123e4567-e89b-12d3-a456-426614174000", "123E4567E89B42D3A456426614174000",
    "123e4567-e89b-32d3-a456-426614174000", "123e4567-e89b-52d3-a456-426614174000", "0321751043", "0-321-75104-3",
    "978-0321751041", "9780321751041", "0321751040", "4111111111111111", "4111-1111-1111-1111", "4111111111111112",
    "111-11-1111", "000-00-0000", "#fff", "fff", "#FFFFFF", "#ffff", "rgb(1,2,3)", "rgb(256,0,0)", "rgb( 1 , 2 , 3 )",
    "rgb(1%,2%,3%)", "5f50c31f2b1e4c3d2a1b0c9d", "5F50C31F2B1E4C3D2A1B0C9D",
)  # fmt: skip
TEXTS = (*_PLAIN, *_CONTROLS, *_LONG, *_TIMES, *_ADDRESSES, *_NUMBERED)
NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, 26, 65535, 65536, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63),
    -(2**63) - 1, 2**64, 10**20, 1.0, 1.5, -0.0, 1e3, 1e-3, 1e19, 1e300,
)  # fmt: skip
BAD_QUANTITIES: tuple[Any, ...] = (
    "", " 1", "1 Gi", "1gi", "1GiB", "one", "1.2.3", "0x1", "1e", "Gi", "--1", 1.5, -1, True, None, [], {}, "1Ki1",
    "99999999999999999999", "1e400", "-", "1_000", "٣",
)  # fmt: skip
OTHER_TYPES: dict[type, tuple[Any, ...]] = {
    str: (1, True, 1.5, [], ["a"], {}, {"a": "b"}),
    bool: ("true", "false", 0, 1, "", [], {}),
    int: ("1", "one", True, 1.0, 1.5, [1], {"a": 1}),
    float: ("1.5", True, 1, [], {}),
    list: ({}, "a", "", 1, True, {"0": "a"}),
    dict: ([], [{}], "a", "", 1, True),
    type(None): ("", 0, {}, []),
}
KEYS = ("", " ", "a b", "é", "a/b", "a/b/c", "a.b", "a" * 300, "UPPER", "-a", "0", "nvidia.com/gpu", ".", "..", "a\nb")
JSON: tuple[Any, ...] = (
    {"a": None}, [None], {"": 1}, {"a": {"b": [1, "x", True, None, 1.5]}}, "text", 1, 1.5, True, [], {}, None,
    2**63 - 1, {"apiVersion": 1, "kind": [], "metadata": "x"},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": 1}}, {"spec": {"unknown": True}},
)  # fmt: skip


LABELS: tuple[Any, ...] = ("", "a", "a b", "-a", "a-", "x" * 63, "x" * 64, "é", 1, True, None, [], "a/b")
LABEL_KEYS: tuple[Any, ...] = (
    {"a b": "x"}, {"": "x"}, {"a/b/c": "x"}, {"UPPER/x": "x"}, {"-a": "x"}, {"a" * 64: "x"}, {"a.b/" + "c" * 63: "x"},
    {"a" * 254 + "/b": "x"}, {"/b": "x"}, {"a/": "x"}, {"a_b.c": "x"}, {"kubernetes.io/x": "x"},
)  # fmt: skip
METADATA: tuple[tuple[tuple[str, ...], tuple[Any, ...]], ...] = (
    (("name",), ("UPPER", "a_b", "-a", "a-", "a" * 253, "a" * 254, "a.b", "a..b", "a" * 64, "é", "1")),
    (("labels", "a"), LABELS),
    (("labels", ""), LABEL_KEYS),
    (("labels",), (None, [], "x", {}, 1)),
    (("annotations", "a"), ("", "a b", "x" * 5000, 1, True, None, {}, "é\n")),
    (("annotations", ""), LABEL_KEYS),
    (("annotations", "big"), ("x" * (256 * 1024 - 200), "x" * (256 * 1024 + 1))),
    (("annotations",), (None, [], "x", {}, 1)),
    (("finalizers",), (
        ["a"], ["a/b"], ["x.y/z", "x.y/z"], [""], None, "a", [1], ["kubernetes"], ["a b/c"],
        ["foregroundDeletion", "orphan"],
    )),
    (("ownerReferences",), (
        [], None, [{}], [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}],
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}],
        [{"apiVersion": "a/b/c", "kind": "K", "name": "a", "uid": "u"}],
        [{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "u"}],
        [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": u, "controller": True} for u in ("u", "v")],
        [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u"}] * 2,
        [{"apiVersion": "v1", "kind": "A", "name": "", "uid": "u"}],
    )),
    (("generateName",), ("a-", "UPPER", "", 1, None, "a" * 260)),
    (("unknown",), ("x", 1, None, {})),
    (("Labels",), ({"a": "b"},)),
    (("creationTimestamp",), (None, "2026-01-02T03:04:05Z", "yesterday", 1)),
    (("deletionGracePeriodSeconds",), (1, -1, "1", None)),
    (("generation",), (7, "7", None, -1)),
    (("selfLink",), ("/x", 1)),
    (("namespace",), (1, None, [])),
)  # fmt: skip
