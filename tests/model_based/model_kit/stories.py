"""Random stories: what hypothesis draws is the text of a whole story.

It is drawn before it is told, and not step by step as hypothesis' own state machines are: API server and watches are
real, so a story that is told again may take another course, which hypothesis would take for a different story.
"""

from __future__ import annotations

from hypothesis import strategies as st

from model_kit.declaring import BUNDLES, SLOTS
from model_kit.faulting import FAULTS, METHODS
from model_kit.others import HANDS

STEPS = 12
"""At most; a step is a line that does something, and a `run`."""

Line = st.SearchStrategy[str]
_slots, _bundles = st.sampled_from(SLOTS), st.sampled_from(BUNDLES)
_values = st.integers(0, 99).map(str)


def _words(*parts: Line | str) -> Line:
    """One line of these words."""
    return st.tuples(*(st.just(p) if isinstance(p, str) else p for p in parts)).map(" ".join)


def _commit(changes: Line, *, most: int) -> Line:
    return st.lists(changes, min_size=1, max_size=most).map(lambda made: f"commit {'; '.join(made)}")


_put = _words("put", _slots, _bundles, _values)
_changes = st.one_of(
    _put,
    _put,
    _words("drop", _slots),
    _words("move", _slots, _bundles),
    _words("patch", _slots, _values | st.just("none")),
    _words("file", _slots, st.sampled_from("abc")),
    _words("swap", _bundles, _bundles),
    _words("remove", _bundles),
    _words("break", _bundles, st.sampled_from(("yaml", "null"))),
    *map(st.just, ("mend", "clear", "nothing")),
    _words("dead", st.sampled_from(("on", "off"))),
)
_rounds = st.one_of(st.integers(0, 40), st.integers(40, 300)).map(str)
_often = tuple(hand for hand in HANDS if hand != "definition")
_hand = _words(st.sampled_from((*_often, *_often, "definition")), _slots, _values)
_times, _size = st.integers(1, 4).map(str), st.integers(0, 3000).map(str)
_fault = _words("fault", st.sampled_from(FAULTS), st.sampled_from(METHODS), _times, _size)
_kill = _words("kill", st.sampled_from(("kept", "kept", "lost", "corrupt")))
_turn = st.sampled_from(("stop", "swap", "swap", "settle", "revert"))
_line = st.one_of(_commit(_changes, most=3), _commit(_changes, most=3), _hand, _hand, _fault, _kill, _turn)
_step = st.tuples(_line, _words("run", _rounds))

STORIES: st.SearchStrategy[list[str]] = st.builds(
    lambda first, settled, steps: [first, *settled, *(line for step in steps for line in step)],
    _commit(_put, most=5),
    st.sampled_from((("settle",), ())),
    st.lists(_step, min_size=3, max_size=STEPS),
)
