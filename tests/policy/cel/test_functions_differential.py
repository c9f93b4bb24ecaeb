"""Functions of the library have the API server's values, over texts that are hard to read.

By admission policies, whose expressions may cost more than the rules of definitions. A policy names the first
expression that does not hold: here the last one, which is false.
"""

import json
import re

import pytest
from controlplane_kit.client import ApiFailure, ApiServer

from gitops.policy.cel.expressions import EvaluationError, Expression, NotEvaluatedError
from tests.policy.cel.test_library import RULES

DRY = {"dryRun": "All"}

# Not for new expressions before 1.35 (the list library), or typed otherwise than the server's checker wants.
UNKNOWN_THERE = re.compile(
    r"slice|flatten|lists\.range|distinct|\.reverse\(\)|\.sort|first\(\)|last\(\)|math\.|true\]|\['1'"
)
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


def policy(name, expressions):
    selector = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector},
            "validations": [{"expression": expression, "message": f"not: {expression}"} for expression in expressions],
        },
    }


def test_the_library_is_the_servers(shared_api: ApiServer, namespace: str):
    known = []
    for rule in RULES:
        problem = refusal(shared_api, POLICIES, policy(namespace, [rule]))
        assert not problem or UNKNOWN_THERE.search(rule), f"{rule}: {problem}"
        if not problem:
            known.append(rule)
    assert len(known) > 130
    assert_holds(shared_api, namespace, known)


def words(text: str, *more: str) -> list[str]:
    return [*text.split(), *more]


URLS = words(
    """
    / /a?b#c * http: http:// http://a http://a:b http://a:80 http://[::1] http://[::1]:80 http://[::1 http://[::1]x
    http://a%20b http://%61 http://a/%zz http://a/%20 //a/b a:b/c a://b 1a://b a+b.c-d://x ://a :a #a ?a /a?%zz
    http://a?%zz http://a#%zz http://a:80:90 http://u:p@h http://u@p@h http://u%zz@h http://a|b http://a"b http://<a>
    http://ä/ö /ö http:///a mailto:x http://h/a;b,c$d&e+f=g:h@i!j'k(l)m*n http://h/a[b] http://h/a|b
    http://h?a=1;b=2&c http://h?a=b+c&d=%20&=x&e HTTP://H/P
    """,
    *("http://a b", "http://h/a b", "/a b", "", " ", "a b", "http://h/ ?a b=c d"),
)
IPS = words(
    """
    1.2.3.4 1.2.3 1.2.3.4.5 01.2.3.4 1.2.3.256 ::1 ::: :: 1:: ::ffff:1.2.3.4 ::1.2.3.4 64:ff9b::1.2.3.4 fe80::1%eth0
    2001:DB8::1 2001:db8:0:0:1:0:0:1 2001:0db8::1 12345::1 1:2:3:4:5:6:7:8 1:2:3:4:5:6:7 1:2:3:4:5:6:7:: [::1] 0.0.0.0
    255.255.255.255 127.1.2.3 169.254.0.1 224.0.0.255 224.0.1.0 239.1.1.1 fe80::1 febf::1 fec0::1 ff02::1 ff12::1
    ff05::1 ff01::1 100.64.0.1
    """,
    *("", " 1.2.3.4", "1.2.3.4 "),
)
CIDRS = words(
    """
    1.2.3.4/0 1.2.3.4/32 1.2.3.4/33 1.2.3.4/08 1.2.3.4/+8 1.2.3.4/ 1.2.3.4 /8 ::/0 ::1/128 ::1/129 ::ffff:1.2.3.4/120
    fe80::1%a/64 10.1.2.3/8 2001:db8:1:2::3/48 1.2.3.4/8/9
    """
)
QUANTITIES = words(
    """
    0 1 -1 +1 1. .5 1.5 1e3 1E3 1e-3 1e+3 1k 1K 1Ki 1ki 1Mi 0.5Gi 1.5k 1m 1000m 1500m 1u 1n 0.1n 1e 1E 1Ei 7Ei 1_000
    0x10 1ee3 1.2.3 00012 -0 -0.5Mi 999999999999999999 123456789012345678 0.000000001 0.0000000001 1.0 1.0k 1024
    1024Ki 1Gi - + . k Mi e3 -Mi 1e1k
    """,
    *("", " 1", "1 ", "1 k"),
)
SEMVERS = words(
    """
    1.2.3 1.2 1 v1.2.3 1.2.3-a 1.2.3-a.1 1.2.3-01 1.2.3-a..b 1.2.3+b 1.2.3+ 1.2.3-a+b.c 01.2.3 1.02.3 1.2.03 v1 v1.2
    1.2-a 1.2.3.4 a.b.c 18446744073709551615.0.0 18446744073709551616.0.0 00.00.00 v01.02.03-rc.1 1.2.3-0a 1.2.3--
    1.2.3-a_b vv1.2.3
    """,
    *("", " 1.2.3"),
)
NAMES = words(
    """
    a a-b -a a- A a.b a..b a_b 1a a1 . - a/b /a a/ a/b/c A_b.c é example.com/Name Example.com/Name a--b a.-b
    2021-01-01 2021-02-29 2020-02-29 2021-13-01 2021-1-1 0000-01-01 2021-01-01T00:00:00Z 2021-01-01t00:00:00z
    2021-01-01T24:00:00Z 2021-01-01T00:00:00 2021-01-01T00:00:00.5+01:00 2021-01-01T00:60:00Z
    2021-01-01T00:00:00+0100 aGVsbG8= aGVsbG8 aGVs=bG8 aa== == 123e4567-e89b-12d3-a456-426614174000
    123E4567E89B12D3A456426614174000 123e4567-e89b http://example.com /a ..
    """,
    *("", "a" * 63, "a" * 64, "a." * 126 + "a", "a." * 127 + "a", "a\n", "a b"),
)
FORMATS = words(
    """
    dns1123Label dns1123Subdomain dns1035Label qualifiedName dns1123LabelPrefix dns1123SubdomainPrefix
    dns1035LabelPrefix labelValue uri uuid byte date datetime
    """
)
PATTERNS = [
    "[0-9]+",
    "[a-z]*",
    "a|ab",
    "ab|a",
    "a+?",
    "(a)(b)?",
    "^a",
    "b$",
    "\\bb",
    "x{0,2}",
    "",
    ".",
    "\\w+",
    "\\s",
    "[^a]",
]
TEXTS = ["", "a", "ab", "abab", "b ab", "12 a 345", "a.b_c", "aaa", "é a"]


ODD = ["", " a\t", "\u00a0x\u2003", "aXb", "É", 'a"b\\c\n', "日本", "😀b"]
METHODS = words(
    """
    trim() upperAscii() lowerAscii() charAt(0) charAt(1) charAt(2) charAt(5) substring(1) substring(0,1) substring(2,1)
    substring(-1) indexOf("b") indexOf("") indexOf("b",1) indexOf("b",9) lastIndexOf("b") lastIndexOf("") size()
    contains("") startsWith("a") endsWith("b") lastIndexOf("b",1)
    """
)
FORMATTED = words(
    """
    %d|1234567 %f|1234567.5 %d|1e7 %s|['a"b'] %s|[1.5] %s|[null,true,[1]] %s|{'b':'x','a':[1]} %s|1 %s|1.5 %s|1e21
    %s|0.1 %s|100.0 %s|true %s|null %s|'a' %s|[1,2] %s|['a','b'] %s|{'a':1} %s|b'x' %s|duration('90s')
    %s|timestamp('2020-01-01T00:00:00.5Z') %s|int %s|1u %s|-1 %d|1 %d|-1 %d|'a' %d|1u %d|1.5 %f|1.5 %f|1 %.2f|1.005
    %.0f|2.5 %e|1234.5 %.1e|0.00012 %b|5 %b|true %b|-5 %o|8 %x|255 %X|255 %x|'ab' %X|b'xyz' %x|-255 %%|1 %|1 %z|1
    %s%s|1 a|1
    """
)
CORE = words(
    r"""
    string(123456789.0) string(123456.0) string(1234567.5) string(123456.75) string(1e6) string(0.0) string(1e20)
    string(1.5e-5) string(0.00012) string(1.5) string(1e21) string(100.0) string(0.1) string(1e-7) string(-0.0)
    string(true) string(1u) string(b'ab') string(duration('90m')) string(duration('1.5s')) string(duration('0s'))
    string(timestamp('2020-01-01T00:00:00.120Z')) string(timestamp('2020-01-01T01:00:00+01:00')) double('1e3')
    double('.5') double('0x10') double('NaN')==double('NaN') double('') int(1.9) int(-1.9) int('12') int('+12')
    int('-0') int('0x10') int('1.0') int('') int('9223372036854775808') int(9.3e18)
    int(timestamp('2020-01-01T00:00:00Z')) uint('1')==1u uint(-1)==1u bool('true') bool('T') bool('yes') bool('1')
    duration('1h').getMinutes() duration('1h1m1s').getSeconds() duration('1.5s').getMilliseconds()
    duration('1d')==duration('1h') duration('-1h').getHours() duration('1h30m')==duration('90m')
    duration('0')==duration('0s') duration('1')==duration('1s') duration('1us')<duration('1ms')
    timestamp('2020-02-30T00:00:00Z').getDate() timestamp('2020-01-01T00:00:00Z').getDayOfWeek()
    timestamp('2020-01-01T00:00:00Z').getDayOfYear() timestamp('2020-01-01T00:00:00Z').getMonth()
    timestamp('2020-01-01T00:00:00Z').getHours('America/New_York')
    timestamp('2020-01-01T00:00:00Z').getHours('+02:30') timestamp('2020-01-01T00:00:00Z').getMinutes('02:30')
    timestamp('2020-01-01')==timestamp('2020-01-01T00:00:00Z')
    timestamp('2020-01-01T00:00:00Z')-timestamp('2019-12-31T00:00:00Z')==duration('24h') 7/2 -7/2 7%3 -7%3 7.0/2.0
    1/0 1%0 1.0/0.0>1.0 9223372036854775807+1 -9223372036854775808-1 0u-1u==1u 3000000000*4000000000 [1,2][5]
    [1,2][-1] {'a':1}['b'] {'a':1}.b {'a':1}.?b.orValue(2) [1,2][?5].orValue(3) [1,2]+[3]==[1,2,3] 'a'+'b'
    b'a'+b'b'==b'ab' 'a'<'b' 'B'<'a' 'é'>'z' [1,2]==[2,1] {'a':1,'b':2}=={'b':2,'a':1} 1==dyn(1.0) dyn('1')==dyn(1)
    dyn([1])==dyn([1.0]) 1 in [1,2] 'a' in {'a':1} dyn(1)<dyn(1.5) dyn(2)>dyn('a') !dyn(1) dyn(1)&&true true||dyn(1)
    false||dyn(1) (1/0==1)||true (1/0==1)&&false true?1:1/0 type(1)==int type(1.0)==double type('a')==string
    type([1])==list type({})==map type(null)==null_type type(b'')==bytes
    type(duration('1s'))==google.protobuf.Duration
    type(timestamp('2020-01-01T00:00:00Z'))==google.protobuf.Timestamp size('日本') size(b'\xc3\xa9') size([1])
    size({'a':1}) b'\303\251'==b'é' r'\d'=='\\d' '\u00e9'=='é' 'a'.matches('^A$') 'a\nb'.matches('a.b')
    'A'.matches('(?i)a') '日'.matches('^.$') 'a'.matches('[') 'ab'.matches('^a$|b') [1,2].exists_one(x,x>1)
    [1,2,3].filter(x,x>1).size() [1,2].map(x,x>1,x*2)==[4] {'a':1}.all(k,k=='a') {'a':1}.exists(k,k=='b')
    [[1],[2]].map(x,x[0])==[1,2] [].all(x,1/0==1) [1,0].exists(x,1/x==1) [0,1].all(x,1/x==2) [0,1].exists(x,1/x==2)
    has({'a':1}.a) has({'a':1}.b) has({'a':null}.a) optional.of(1).value() optional.none().value()
    optional.ofNonZeroValue(0).hasValue() optional.of(2).optFlatMap(x,optional.of(x+1)).value()
    optional.of(1)==optional.of(1) optional.none()==optional.none() [?optional.none(),1]==[1]
    {?'a':optional.of(1)}=={'a':1}
    """
)


def calls() -> dict[str, list[str]]:
    """Expressions by subject; each has a value, or an error on both sides."""
    quoted = {
        name: [json.dumps(text) for text in texts] for name, texts in globals().items() if isinstance(texts, list)
    }
    return {
        "strings": [
            *(f"{text}.{method}" for text in quoted["ODD"] for method in METHODS),
            *(f"strings.quote({text})" for text in quoted["ODD"]),
            *("'{}'.format([{}])".format(*row.split("|")) for row in FORMATTED),
        ],
        "core": CORE,
        "urls": [
            *(f"isURL({text})" for text in quoted["URLS"]),
            *(
                f"url({text}).{part}()"
                for text in quoted["URLS"]
                for part in ("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery")
            ),
        ],
        "addresses": [
            *(f"isIP({text})" for text in quoted["IPS"]),
            *(f"string(ip({text}))" for text in quoted["IPS"]),
            *(f"ip.isCanonical({text})" for text in quoted["IPS"]),
            *(
                f"ip({text}).{part}()"
                for text in quoted["IPS"]
                for part in ("family", "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast")
            ),
            *(f"ip({text}).isGlobalUnicast()" for text in quoted["IPS"]),
            *(f"isCIDR({text})" for text in quoted["CIDRS"]),
            *(f"string(cidr({text}).masked())" for text in quoted["CIDRS"]),
            *(f"string(cidr({text}).ip())" for text in quoted["CIDRS"]),
            *(f"cidr({a}).containsCIDR({b})" for a in quoted["CIDRS"] for b in ('"10.0.0.0/8"', '"::/0"')),
        ],
        "numbers": [
            *(f"isQuantity({text})" for text in quoted["QUANTITIES"]),
            *(f"quantity({text}).isInteger()" for text in quoted["QUANTITIES"]),
            *(f"quantity({text}).asInteger()" for text in quoted["QUANTITIES"]),
            *(f"sign(quantity({text}))" for text in quoted["QUANTITIES"]),
            *(f'quantity({text}).compareTo(quantity("1k"))' for text in quoted["QUANTITIES"]),
            *(f"quantity({text}).add(1).isInteger()" for text in quoted["QUANTITIES"]),
            *(f"isSemver({text})" for text in quoted["SEMVERS"]),
            *(f"isSemver({text}, true)" for text in quoted["SEMVERS"]),
            *(f'semver({text}, true).compareTo(semver("1.2.3-a.1"))' for text in quoted["SEMVERS"]),
        ],
        "formats": [f"format.{name}().validate({text}).hasValue()" for name in FORMATS for text in quoted["NAMES"]],
        "texts": [
            *(f"{text}.find({pattern})" for text in quoted["TEXTS"] for pattern in quoted["PATTERNS"]),
            *(f"{text}.findAll({pattern})" for text in quoted["TEXTS"] for pattern in quoted["PATTERNS"]),
            *(f"{text}.findAll({pattern}, 2)" for text in quoted["TEXTS"] for pattern in quoted["PATTERNS"]),
            *(f"{text}.matches({pattern})" for text in quoted["TEXTS"] for pattern in quoted["PATTERNS"]),
            *(f"{text}.replace({old}, 'xy')" for text in quoted["TEXTS"] for old in ("''", "'a'", "'ab'")),
            *(f"{text}.split({mark}, {n})" for text in quoted["TEXTS"] for mark in ("''", "'a'") for n in (0, 1, 2)),
            *(f"{text}.split({mark})" for text in quoted["TEXTS"] for mark in ("''", "'a'", "' '")),
        ],
    }


def literal(value: object) -> str:
    return json.dumps(value) if not isinstance(value, float) else repr(value)


@pytest.mark.parametrize("subject", ["core", "strings", "urls", "addresses", "numbers", "formats", "texts"])
def test_functions_have_the_servers_values(shared_api: ApiServer, namespace: str, subject: str):
    """And an error here is one there: those are asked for one by one, by the name of the object."""
    expected: list[str] = []
    failing: list[str] = []
    gave_up = 0
    for text in calls()[subject]:
        if subject in ("core", "strings") and refusal(
            shared_api, POLICIES, policy(namespace, [f"[{text}].size() == 1"])
        ):
            continue  # typed otherwise than the server's checker wants
        expression = Expression.compile(text)
        assert isinstance(expression, Expression), expression
        try:
            expected.append(f"({text}) == {literal(expression.evaluate(self=None))}")
        except NotEvaluatedError:
            gave_up += 1
        except EvaluationError:
            failing.append(text)
    assert len(expected) > max(50, 5 * gave_up)
    # An empty map or list has no type that the server's checker would compare with any other.
    known = [
        text if not re.search(r"(\{\}|\[\])$", text) else re.sub(r" == ..$", ".size() == 0", text) for text in expected
    ]
    guarded = [f"object.metadata.name != 'a{n}' || [dyn({text})].size() == 2" for n, text in enumerate(failing)]
    assert_holds(shared_api, namespace, [*guarded, *known])
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    for n, text in enumerate(failing):
        said = refusal(shared_api, configmaps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"a{n}"}})
        assert "resulted in error" in said, f"{text}: {said}"


def refusal(api: ApiServer, path: str, body: dict) -> str:
    """What the server says against creating it; "" when it takes it."""
    try:
        api.request("POST", path, body, query=DRY)
    except ApiFailure as failure:
        return json.loads(failure.body)["message"]
    return ""


def assert_holds(shared_api: ApiServer, namespace: str, expressions: list[str]) -> None:
    shared_api.request("POST", POLICIES, policy(namespace, [*expressions, "1 == 2"]))
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": namespace},
        "spec": {"policyName": namespace, "validationActions": ["Deny"]},
    }
    shared_api.request("POST", f"{POLICIES.removesuffix('ies')}ybindings", binding)

    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    said = shared_api.wait(lambda: refusal(shared_api, configmaps, body), "the policy to be in force")
    assert said.rpartition("denied request: ")[2] == "not: 1 == 2"
