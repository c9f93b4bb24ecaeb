"""Rules of one place in one evaluation: true only when each of them is."""

from __future__ import annotations

from itertools import product

import pytest

from gitops.policy.cel.expressions import EvaluationError
from gitops.policy.rule_expressions import all_hold, holds, scope

TEXTS = ("self.a > 1", "self.missing == 1", "self.a < 1", "self.a // a number", "true || self.missing == 1")
"""True, an error, false, no truth value, and true although a part has no value."""


def one_by_one(texts, values):
    try:
        return all(holds(text, values) for text in texts)
    except EvaluationError:
        return False


@pytest.mark.parametrize("texts", [t for n in (1, 2, 3) for t in product(TEXTS, repeat=n)])
def test_together_they_say_what_each_says(texts):
    values = scope(self={"a": 2})
    assert all_hold(texts, values) is one_by_one(texts, values)


def test_of_no_rules_and_of_a_text_that_is_no_expression():
    values = scope(self={"a": 2})
    assert all_hold(("self.a > 1",) * 60, values) is True
    assert all_hold(("self.a > 1", "self.a >"), values) is False
