"""Single expressions: values, errors in an API server's words, limits."""

import pytest

from gitops.policy.cel.expressions import (
    LONGEST_TEXT,
    CompileProblem,
    EvaluationError,
    Expression,
    NotEvaluatedError,
)


def compiled(text: str, *variables: str) -> Expression:
    expression = Expression.compile(text, variables or ("self",))
    assert isinstance(expression, Expression), expression
    return expression


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("self.spec.replicas + 1", 4),
        ("self.spec.?image.orValue('none')", "none"),
        ("has(self.spec.image)", False),
        ("self.spec.names.map(n, n.upperAscii())", ["A", "B"]),
        ("'%d of %s'.format([self.spec.replicas, 'x'])", "3 of x"),
        ("self.spec.replicas > 2.5", True),
    ],
)
def test_an_expression_has_a_plain_value(text, value):
    assert compiled(text).evaluate(self={"spec": {"replicas": 3, "names": ["a", "b"]}}) == value


def test_two_variables():
    rule = compiled("self == oldSelf", "self", "oldSelf")
    assert rule.evaluate(self={"a": [1]}, oldSelf={"a": [1]}) is True
    assert rule.evaluate(self={"a": [1]}, oldSelf={"a": [2]}) is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("self.absent", "no such key: absent"),
        ("self.list[3]", "index out of bounds: 3"),
        ("1 / self.zero == 1", "division by zero"),
        ("self.list + 1 == 2", "no such overload"),
        ("self.absent.deeper == 'secret'", "no such key: absent"),
    ],
)
def test_errors_in_the_words_of_an_api_server(text, said):
    with pytest.raises(EvaluationError, match=f"^{said}$") as caught:
        compiled(text).evaluate(self={"list": [1], "zero": 0})
    assert not isinstance(caught.value, NotEvaluatedError)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("self.x.unheardOf()", "unheardOf"),
        ("self.x ==", "Syntax error"),
        ("other == 1", "other"),
        ("'a" + "a" * LONGEST_TEXT + "'", "longer"),
        ("'\ud800'", "no text"),
        ("self.a == '\0'", "no text"),
        ("(" * 500 + "1" + ")" * 500, "recursion"),
    ],
)
def test_what_does_not_compile_is_a_problem(text, reason):
    problem = Expression.compile(text)
    assert isinstance(problem, CompileProblem)
    assert reason in problem.reason


@pytest.mark.parametrize("value", [2**63, "a\0b", "\ud800", {"a": ["\0"]}, {"\0": 1}])
def test_values_that_the_engine_cannot_hold(value):
    with pytest.raises(NotEvaluatedError):
        compiled("self == 1").evaluate(self=value)


@pytest.mark.parametrize(
    ("text", "items", "why"),
    [
        ("self.all(a, self.all(b, a + b >= 0))", 300, "budget"),
        ("self.all(a, self.all(b, self.all(c, a + b + c >= 0)))", 10_000, "long"),
        ("[self[0]]" + ".map(x, x + x)" * 20 + ".size() > 0", 1, "long"),
        ("[self]" + ".map(x, [x, x])" * 20 + " == self", 1, "long"),
    ],
)
def test_a_runaway_expression_ends(text, items, why):
    with pytest.raises(NotEvaluatedError, match=why):
        compiled(text).evaluate(self=list(range(items)))


def test_a_text_that_doubles_ends():
    doubling = "self" + ".replace('a', 'aaaaaaaaaa')" * 9
    with pytest.raises(NotEvaluatedError, match="becomes too long"):
        compiled(doubling).evaluate(self="a")
