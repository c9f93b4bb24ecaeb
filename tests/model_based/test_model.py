"""Whatever happens, in the end all is as Git declares and nothing was lost: a model of that against the whole daemon.

hypothesis tells stories (model_kit/story.py) and shortens those that go wrong. The API server, its watches and the
proxy are real, so two tellings of a story differ in what comes first: what is printed is the story in words, to be told
again (`MODEL_STORY=file`), and kept in data/ once it has found something.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_kit.declaring import BUNDLES, SLOTS
from model_kit.faulting import FAULTS, METHODS
from model_kit.others import HANDS
from model_kit.story import Bench, Story

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]

RUNS = int(os.environ.get("MODEL_RUNS", "300" if "CI" in os.environ else "20"))
STEPS = 14

slots = st.sampled_from(SLOTS)
bundles = st.sampled_from(BUNDLES)
values = st.integers(0, 99).map(str)


def words(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    """One line of these words."""
    return st.tuples(*(st.just(p) if isinstance(p, str) else p for p in parts)).map(" ".join)


changes = st.one_of(
    words("put", slots, bundles, values),
    words("put", slots, bundles, values),
    words("drop", slots),
    words("move", slots, bundles),
    words("patch", slots, values | st.just("none")),
    words("file", slots, st.sampled_from("abc")),
    words("swap", bundles, bundles),
    words("remove", bundles),
    words("break", bundles, st.sampled_from(("yaml", "null"))),
    words("mend"),
    words("clear"),
    words("nothing"),
    words("dead", st.sampled_from(("on", "off"))),
)
rounds = st.one_of(st.integers(0, 40), st.integers(40, 300)).map(str)


def line_and_run(line: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    return st.tuples(line, words("run", rounds)).map(list)


size, times = st.integers(0, 3000).map(str), st.integers(1, 4).map(str)
COMMIT = st.lists(changes, min_size=1, max_size=3).map(lambda made: f"commit {'; '.join(made)}")
HAND = words(st.sampled_from(HANDS), slots, values)
FAULT = words("fault", st.sampled_from(FAULTS), st.sampled_from(METHODS), times, size)
KILL = words("kill", st.sampled_from(("kept", "kept", "lost", "corrupt")))
TURN = st.sampled_from(("stop", "swap", "swap", "settle", "revert"))
STEP = st.one_of(*map(line_and_run, (COMMIT, COMMIT, HAND, HAND, FAULT, KILL, TURN)))
BEGIN = st.lists(words("put", slots, bundles, values), min_size=1, max_size=5).map(
    lambda put: f"commit {'; '.join(put)}"
)
STORIES = st.builds(
    lambda begin, first, steps: [begin, *first, *(line for step in steps for line in step)],
    BEGIN,
    st.sampled_from((["settle"], [])),
    st.lists(STEP, min_size=3, max_size=STEPS),
)


def tell(bench: Bench, lines: list[str]) -> None:
    story = Story(bench)
    try:
        for line in lines:
            story.do(line)
        story.finish()
    except BaseException:
        print("the story:", *lines, "", "what happened:", *story.log[-600:], sep="\n")
        raise
    finally:
        story.close()


@pytest.mark.timeout(0)
def test_whatever_happens_all_is_as_declared_in_the_end(bench: Bench) -> None:
    @settings(max_examples=RUNS, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True)
    @given(STORIES)
    def stories(lines: list[str]) -> None:
        tell(bench, lines)

    stories()


def told(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


KEPT = sorted((Path(__file__).parent / "data").glob("*.txt"))


@pytest.mark.parametrize("path", KEPT, ids=lambda p: p.stem)
def test_a_story_that_once_went_wrong(path: Path, bench: Bench) -> None:
    tell(bench, told(path))
