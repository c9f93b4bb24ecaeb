"""Random stories: a seed is a story.

hypothesis is not used here: most of its examples are hardly other than an earlier one (docs/decisions.md), and a story
takes another course each time on a real API server, so that a search for a shorter one that fails the same way ends
nowhere. `shorter` gives what is worth trying instead.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from model_kit.declaring import BUNDLES, SLOTS
from model_kit.faulting import FAULTS, METHODS
from model_kit.others import HANDS

STEPS = (3, 9)
"""Fewest and most; a step is a line that does something, and a `run`."""

_OFTEN = tuple(hand for hand in HANDS if hand != "definition")


def story_of(seed: int) -> list[str]:
    """The lines of the story with this number."""
    rng = random.Random(seed)
    lines = [f"commit {'; '.join(_put(rng) for _ in range(rng.randint(1, 6)))}"]
    if rng.random() < 0.6:
        lines.append("settle")
    for _ in range(rng.randint(*STEPS)):
        lines += [_step(rng), f"run {_rounds(rng)}"]
    return lines


def shorter(lines: list[str]) -> Iterator[list[str]]:
    """The story with ever smaller parts left out."""
    size = len(lines) // 2
    while size:
        for start in range(1, len(lines), size):
            yield lines[:start] + lines[start + size :]
        size //= 2


def _put(rng: random.Random) -> str:
    return f"put {rng.choice(SLOTS)} {rng.choice(BUNDLES)} {rng.randrange(100)}"


def _rounds(rng: random.Random) -> int:
    return rng.choice((rng.randrange(12), rng.randrange(40), rng.randrange(300)))


def _step(rng: random.Random) -> str:
    match rng.randrange(8):
        case 0 | 1:
            return f"commit {'; '.join(_change(rng) for _ in range(rng.choice((1, 1, 2, 3))))}"
        case 2 | 3 | 4:
            hand = "definition" if rng.random() < 0.02 else rng.choice(_OFTEN)
            return f"{hand} {rng.choice(SLOTS)} {rng.randrange(100)}"
        case 5:
            return f"fault {rng.choice(FAULTS)} {rng.choice(METHODS)} {rng.randint(1, 4)} {rng.randrange(3000)}"
        case 6:
            return f"kill {rng.choice(('kept', 'kept', 'lost', 'corrupt'))}"
        case _:
            return rng.choice(("stop", "swap", "swap", "settle", "revert"))


def _change(rng: random.Random) -> str:
    slot, bundle, value = rng.choice(SLOTS), rng.choice(BUNDLES), rng.randrange(100)
    return rng.choice(
        (
            *(f"put {slot} {bundle} {value}",) * 4,
            *(f"drop {slot}",) * 3,
            *(f"move {slot} {bundle}",) * 2,
            *(f"patch {slot} {value}",) * 2,
            f"patch {slot} none",
            f"file {slot} {rng.choice('abc')}",
            f"swap {bundle} {rng.choice(BUNDLES)}",
            f"remove {bundle}",
            f"break {bundle} {rng.choice(('yaml', 'null'))}",
            "mend",
            rng.choice(("clear", "nothing", "mend")),
            f"dead {rng.choice(('on', 'off'))}",
        )
    )
