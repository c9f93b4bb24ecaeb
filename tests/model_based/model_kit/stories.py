"""Random stories: a seed is a story.

hypothesis is not used here: most of its examples are hardly other than an earlier one (docs/decisions.md), and a story
takes another course each time on a real API server, so that a search for a shorter one that fails the same way ends
nowhere. `shorter` gives what is worth trying instead.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from model_kit.declaring import BUNDLES, SLOTS, Tree
from model_kit.faulting import FAULTS, METHODS, WATCHES
from model_kit.others import HANDS

STEPS = (3, 8)
"""Fewest and most; a step is one line that does something, or a few that belong together, and a `run`."""

AIMED = 0.8
"""Part of the hands and changes that are about an object which is declared then: others mostly meet nothing."""

CALM = 0.3
"""Part of the stories in which nothing fails: all must be right at once, and nothing hides what was overlooked."""

_OFTEN = tuple(hand for hand in HANDS if hand != "definition")
_HARD = ("edit", "json", "delete", "recreate", "unlabel", "relabel", "wipe", "parent")
"""Hands after which something must be done."""
_PLAIN = ("edit", "json", "delete", "unlabel", "wipe")
"""Of those, what is repaired at once."""


def story_of(seed: int) -> list[str]:
    """The lines of the story with this number."""
    return _Teller(random.Random(seed)).story()


def shorter(lines: list[str]) -> Iterator[list[str]]:
    """The story with ever smaller parts left out."""
    size = len(lines) // 2
    while size:
        for start in range(1, len(lines), size):
            yield lines[:start] + lines[start + size :]
        size //= 2


class _Teller:
    """`trees` are what Git declares, commit by commit, so that most of what happens is about what is there."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._trees = [Tree()]
        self._calm = rng.random() < CALM

    def story(self) -> list[str]:
        rng = self._rng
        lines = [self._commit(*(self._put(rng.choice(SLOTS)) for _ in range(rng.randint(1, 6))))]
        if rng.random() < 0.6:
            lines.append("settle")
        for _ in range(rng.randint(*STEPS)):
            lines += [*self._step(), f"run {self._rounds()}"]
        return lines

    def _step(self) -> list[str]:
        rng = self._rng
        if self._calm:
            return self._under_way() if rng.random() < 0.6 else ["settle", self._hand(*_PLAIN)]
        match rng.randrange(16):
            case 0 | 1 | 2:
                return [self._commit(*(self._change() for _ in range(rng.choice((1, 1, 2, 3)))))]
            case 3 | 4 | 5:
                return [self._hand(*("definition",) if rng.random() < 0.02 else _OFTEN)]
            case 6 | 7:
                return ["settle", self._hand(*_HARD)]
            case 8 | 9:
                return self._under_way()
            case 10 | 11:
                return self._unwatched()
            case 12:
                return [self._broken()]
            case 13:
                return [f"fault {rng.choice(FAULTS)} {rng.choice(METHODS)} {rng.randint(1, 4)} {rng.randrange(3000)}"]
            case 14:
                return [f"kill {rng.choice(('kept', 'kept', 'lost', 'corrupt'))}"]
            case _:
                return [self._turn()]

    # -- situations --------------------------------------------------------------------------------------------------

    def _under_way(self) -> list[str]:
        """Hands on an object that is just being written."""
        slot, rng = self._slot(), self._rng
        late = [f"fault late {rng.choice(METHODS)} {rng.randint(1, 4)} 0"] if rng.random() < 0.7 else []
        change = self._put(slot) if rng.random() < 0.8 else f"drop {slot}"
        met = [f"meet {rng.choice(('patch', 'patch', 'get', 'post', 'delete'))}", f"run {rng.randrange(6)}"]
        return [*late, self._commit(change), *met, self._hand(*(_PLAIN if self._calm else _HARD), slot=slot)]

    def _unwatched(self) -> list[str]:
        """Hands while watches end, and the lists after that fail."""
        rng = self._rng
        lists = rng.choice(("gone-lists", "no-lists", "half-answers", "500", "cut"))
        faults = [
            f"fault {rng.choice(WATCHES)} get {rng.randint(1, 4)} {rng.randrange(600)}",
            "fault connections any 1 0",
        ]
        faults += [f"fault {lists} get {rng.randint(1, 3)} {rng.randrange(2000)}"] if rng.random() < 0.6 else []
        hands = [self._hand(*_HARD) for _ in range(rng.randint(1, 2))]
        return ["settle", *rng.sample([*faults, *hands], k=len(faults) + len(hands))]

    def _broken(self) -> str:
        """A commit that breaks a bundle in which something changes as well, or which something joins or leaves."""
        bundle, slot, rng = self._rng.choice(BUNDLES), self._slot(), self._rng
        change = rng.choice((f"move {slot} {bundle}", f"drop {slot}", self._put(slot), f"put {slot} {bundle} 7"))
        return self._commit(change, f"break {bundle} {rng.choice(('yaml', 'null'))}")

    def _turn(self) -> str:
        turn = self._rng.choice(("stop", "swap", "swap", "settle", "revert"))
        if turn == "revert":
            self._trees.append(self._trees[-2 if len(self._trees) > 1 else -1])
        return turn

    # -- words -------------------------------------------------------------------------------------------------------

    def _commit(self, *changes: str) -> str:
        tree = self._trees[-1]
        for change in changes:
            tree = tree.changed(change.split())
        self._trees.append(tree)
        return f"commit {'; '.join(changes)}"

    def _slot(self) -> str:
        declared = sorted(self._trees[-1].objects)
        return self._rng.choice(declared if declared and self._rng.random() < AIMED else SLOTS)

    def _hand(self, *hands: str, slot: str = "") -> str:
        return f"{self._rng.choice(hands)} {slot or self._slot()} {self._rng.randrange(100)}"

    def _put(self, slot: str) -> str:
        known = self._trees[-1].objects.get(slot)
        bundle = known.bundle if known is not None and self._rng.random() < 0.7 else self._rng.choice(BUNDLES)
        return f"put {slot} {bundle} {self._rng.randrange(100)}"

    def _rounds(self) -> int:
        return self._rng.choice((self._rng.randrange(12), self._rng.randrange(40), self._rng.randrange(300)))

    def _change(self) -> str:
        rng = self._rng
        slot, bundle, value = self._slot(), rng.choice(BUNDLES), rng.randrange(100)
        return rng.choice(
            (
                *(self._put(rng.choice((slot, rng.choice(SLOTS)))),) * 4,
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
