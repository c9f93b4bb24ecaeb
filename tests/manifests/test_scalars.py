"""Plain scalars: kubectl's typing (the same table is checked against kubectl itself in test_kubectl.py)."""

import pytest

from gitops.manifests import codes, scalars


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("Null", None),
        ("nULL", "nULL"),
        ("yes", True),
        ("yEs", "yEs"),
        ("N", False),
        ("0", 0),
        ("00", 0),
        ("-0", 0),
        ("-0.0", 0),
        ("+1", 1),
        ("0644", 420),
        ("0o644", 420),
        ("0O17", 15),
        ("-0644", -420),
        ("0x1F", 31),
        ("0X1f", 31),
        ("-0x10", -16),
        ("0b101", 5),
        ("0b-101", -5),  # go-yaml leaves what follows `0b` to ParseInt, which knows signs
        ("0b+1", 1),
        ("-0b-1", "-0b-1"),
        ("0b" + "1" * 40, 2**40 - 1),
        ("0x" + "0" * 80 + "1", 1),
        ("0" * 80 + "1", 1),
        ("0b2", "0b2"),
        ("0o8", "0o8"),
        ("0x", "0x"),
        ("1_000", 1000),
        ("1__0_", 10),
        ("_1", "_1"),
        ("-_1", -1),
        ("0x_1", 1),
        ("1e3", 1000),
        ("1e_3", 1000),
        ("1.", 1),
        ("1.5", 1.5),
        (".5", 0.5),
        (".34_6", 0.346),
        (".5_", ".5_"),
        ("._5", "._5"),
        ("+._5", 0.5),
        (".e3", ".e3"),
        ("1e400", "1e400"),
        ("1e-400", 0),
        ("1e18", 10**18),
        ("1.2345678901234567e18", 1234567890123456800),  # the shortest digits of the float, then zeros
        ("9223372036854774784.0", 9223372036854775000),
        ("0x1p-2", "0x1p-2"),
        ("0x10000000000000000", "0x10000000000000000"),
        ("-0x8000000000000000", -(2**63)),
        ("-0x8000000000000001", "-0x8000000000000001"),
        ("1.2.3", "1.2.3"),
        ("12:30", "12:30"),
        ("2030-01-02", "2030-01-02"),
        ("Infinity", "Infinity"),
        ("nan", "nan"),
        ("-", "-"),
        (".", "."),
        ("=", "="),
        ("10Gi", "10Gi"),
    ],
)
def test_values(text, value):
    found = scalars.resolve(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("08", codes.LEADING_ZERO),
        ("-09", codes.LEADING_ZERO),
        ("0_8", codes.LEADING_ZERO),
        (".inf", codes.NOT_FINITE),
        ("-.Inf", codes.NOT_FINITE),
        (".NaN", codes.NOT_FINITE),
        ("9223372036854775808", codes.NUMBER_TOO_LARGE),
        ("01777777777777777777777", codes.NUMBER_TOO_LARGE),
        ("1e30", codes.NUMBER_TOO_LARGE),
        ("-9223372036854775808.0", codes.NUMBER_TOO_LARGE),
    ],
)
def test_refused(text, code):
    with pytest.raises(scalars.RefusedScalar) as refused:
        scalars.resolve(text)
    assert refused.value.code == code
    assert f"`{text}`" in str(refused.value)
