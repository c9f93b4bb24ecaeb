"""Whatever happens, in the end all is as Git declares and nothing was lost: the whole daemon against a model of that.

What is told, and what is then asked, stands in model_kit/story.py and checking.py; docs/testing.md says how to run more
of it and how to tell a story again. A story that once went wrong is kept in data/, with a line on what was wrong.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from model_kit.stories import story_of
from model_kit.story import Bench, read_story, tell

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.e2e,
    # Whoever is killed closes nothing.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

RUNS = int(os.environ.get("MODEL_RUNS", "20"))
"""CI tells more."""

FIRST = int(os.environ.get("MODEL_SEED") or random.randrange(10**9))

KEPT = sorted((Path(__file__).parent / "data").glob("*.txt"))


@pytest.mark.timeout(0)
def test_whatever_happens_all_is_as_declared_in_the_end(bench: Bench) -> None:
    for seed in range(FIRST, FIRST + RUNS):
        print(f"seed {seed}")
        tell(bench, story_of(seed))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_story_that_once_went_wrong_goes_well(path: Path, bench: Bench) -> None:
    tell(bench, read_story(path))
