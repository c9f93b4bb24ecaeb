"""A story: a Git repository, a daemon or two, a cluster behind a proxy, and what people, others and faults do to them.

A story is text, a line for each step (`do`), so that one that found something can be kept and told again. Every line
means something in every state, so lines can be left out of a story and it is still one.

| line | what happens |
|---|---|
| `commit put cm-0 web 17; drop w-0` | a commit with these changes (declaring.py) |
| `revert` | a commit with the files of the last one but one |
| `rewrite put cm-0 web 17` | as `commit`, and the history before it is gone: a force-push |
| `run 40` | the daemon goes on for so many rounds of its loop |
| `meet patch` | it goes on until it has just sent such a call, whose answer is not here then, or has nothing to do |
| `settle` | it goes on until everything is right and nothing is left to do |
| `edit cm-0 9` … | others' hands (others.py) |
| `fault 429 patch 2 0` … | the proxy fails (faulting.py) |
| `kill kept` (`lost`, `corrupt`) | SIGKILL where the daemon is now; what becomes of its files; a new one begins |
| `stop` | SIGTERM, and a new one |
| `swap` | the daemon stands still from now on, and another goes on (a stand-by, at first) |
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.faultproxy import FaultProxy

from gitops.cluster.access import freeze_libraries
from model_kit.api import LEASES, SYSTEM, Api
from model_kit.checking import Checks
from model_kit.daemon import Daemon, Sent, spoil
from model_kit.declaring import FOLDERS, GROUP, Names, Tree, definition
from model_kit.faulting import fault
from model_kit.history import History
from model_kit.others import HANDS, Others
from model_kit.repository import StoryRepository
from model_kit.timing import StoryTime

LONGEST = 1800.0
"""Seconds of the story's own time until everything must be right: the longest back-offs may have to end."""

PROMPT = 100.0
"""The same for a calm story, in which nothing failed that daemons have to wait for: less than the silence after which
a watch is given up and everything is listed anew, which hides what was overlooked."""

PATIENCE = 180.0
"""Real seconds for the same: of a daemon that spins, since waiting costs none."""

POLL = 60.0
"""Seconds of the story's own time between looks at the repository that nothing asked for."""

LEAPS = 6
"""How often time may leap in a `run`: with nothing else to do a daemon only renews its Lease."""

MEETING = 500
"""Rounds of the loop in which a call is waited for, to meet it under way."""

REST = 30.0
"""Seconds of the story's own time without a call that count as rest."""


@dataclass(slots=True)
class Bench:
    """What all stories of a process share: the control plane, a connection to it, and a proxy for each daemon."""

    plane: ControlPlane
    api: Api
    proxies: tuple[FaultProxy, FaultProxy]
    folder: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @classmethod
    @contextlib.contextmanager
    def made(cls, plane: ControlPlane, folder: Path) -> Iterator[Bench]:
        """On a control plane that is used for nothing else."""
        plane.create_crd_objects([definition()])
        freeze_libraries()
        api = Api(plane)
        with FaultProxy(plane, folder / "proxy-a") as one, FaultProxy(plane, folder / "proxy-b") as other:
            api.request("POST", "/api/v1/namespaces", {"metadata": {"name": "model"}})
            yield cls(plane, api, (one, other), folder)
        api.close()

    def make_definition_anew(self) -> None:
        """Delete the definition of Widgets, and all of them with it, and make it again."""
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{GROUP}"
        self.api.request("DELETE", path)
        self.plane.wait(lambda: self.api.get(path) is None, "the definition to go")
        self.plane.create_crd_objects([definition()])


class Story:
    """One story under way. Raises AssertionError as soon as something is wrong; `close` it in any case."""

    def __init__(self, bench: Bench) -> None:
        number = next(bench.numbers)
        self.bench = bench
        self.api = bench.api
        self.names = Names(f"model-{number}", "model")
        self.folder = bench.folder / f"story-{number}"
        self.time = StoryTime()
        self.began = self._polled = time.monotonic()
        self.lines: list[str] = []
        self.log: list[str] = []
        self.history = History()
        self.repo = StoryRepository(self.folder / "git")
        self.rng = random.Random(0)
        self._clean()
        self.others = Others(self)
        self.checks = Checks(self)
        self.daemons: list[Daemon | None] = [None, None]
        self.active = 0
        self.births = itertools.count(1)
        self.others.make_foreign()
        self._commit(Tree(), "begun")
        self._begin()

    # -- telling -----------------------------------------------------------------------------------------------------

    def do(self, line: str) -> None:
        """One step."""
        self.lines.append(line)
        self.note(line)
        match line.split():
            case ["commit", *words]:
                self._commit(self._changed(words), line)
            case ["rewrite", *words]:
                self._commit(self._changed(words), line, rewritten=True)
            case ["revert"]:
                self._commit(self.history.commits[-2 if len(self.history.commits) > 1 else -1][1], line)
            case ["run", rounds]:
                self.steps(int(rounds), leaps=LEAPS)
            case ["meet", method]:
                self._meet(method.upper())
            case ["settle"]:
                self.settle()
            case ["kill", how]:
                self._kill(how)
            case ["stop"]:
                self.daemon.stop()
                self._begin()
            case ["swap"]:
                self.active = 1 - self.active
                if self.daemons[self.active] is None:
                    self._begin()
            case ["fault", kind, method, times, size]:
                self.note(fault(self.proxy, kind, method, int(times), int(size)))
            case [hand, *words] if hand in HANDS:
                self.others.act(hand, words)
            case _:
                raise ValueError(f"no step: {line}")

    def finish(self) -> None:
        """Faults end; then everything has to become right, and rest. What is broken is right when it is held, and is
        mended after that."""
        self.note("the end: faults end")
        for proxy in self.bench.proxies:
            proxy.restore()
        self.settle()
        if self.history.tree.broken:
            self.do("commit mend")
            self.settle()
        self._rest()
        self.checks.foreign_untouched()

    def settle(self) -> None:
        """Go on until everything is right, as long as that may take."""
        within = PROMPT if all(map(is_calm, self.lines)) else LONGEST
        ends, last = time.monotonic() + PATIENCE, self.time.now() + within
        wrong = ["never was the daemon done"]
        while wrong:
            if time.monotonic() > ends or self.time.now() > last:
                raise AssertionError("\n".join(["this stays wrong:", *wrong]))
            self.steps(8)
            if self.daemon.idle_at(self.history.head):
                wrong = self.checks.wrong()
        self.checks.remember()

    def _rest(self) -> None:
        """No call any more, and nothing is wrong afterwards."""
        ends = time.monotonic() + PATIENCE
        while True:
            self.calls.clear()
            until = self.time.now() + REST
            while self.time.now() < until and not self.calls:
                self.steps(1)
            if not self.calls:
                break
            if time.monotonic() > ends:
                raise AssertionError("\n".join(["there is no rest:", *map(str, self.calls)]))
            self.steps(20)
        wrong = self.checks.wrong()
        assert not wrong, "\n".join(["at rest this is wrong:", *wrong])

    def steps(self, rounds: int, *, leaps: int | None = None) -> None:
        if self.time.now() - self._polled > POLL:  # apscheduler goes by the wall clock, which does not leap
            self._polled = self.time.now()
            self.daemon.engine.request_fetch()
        self.daemon.steps(rounds, leaps=leaps)
        self.checks.raise_found()

    def note(self, text: str) -> None:
        self.log.append(f"{time.monotonic() - self.began:7.3f} {self.time.now() - self.began:8.1f} {text}")

    # -- parts -------------------------------------------------------------------------------------------------------

    @property
    def daemon(self) -> Daemon:
        found = self.daemons[self.active]
        assert found is not None
        return found

    @property
    def proxy(self) -> FaultProxy:
        return self.bench.proxies[self.active]

    def _changed(self, words: list[str]) -> Tree:
        tree = self.history.tree
        for change in " ".join(words).split(";"):
            tree = tree.changed(change.split())
        return tree

    def _meet(self, method: str) -> None:
        last_leap = self.time.leaps + LEAPS
        for _ in range(MEETING):
            before = len(self.calls)
            self.steps(1, leaps=1)
            met = (sent for sent in self.calls[before:] if sent.method == method)
            if any(sent.is_write or method == "GET" for sent in met) or self.time.leaps >= last_leap:
                return

    def _commit(self, tree: Tree, message: str, *, rewritten: bool = False) -> None:
        commit = self.repo.commit(self.names.files(tree), message, root=rewritten)
        self.history.add(commit, tree)
        self.note(f"commit {commit[:12]}")
        if len(self.history.commits) > 1:
            self.checks.committed()
        for daemon in filter(None, getattr(self, "daemons", ())):
            daemon.engine.request_fetch()

    def _begin(self) -> None:
        name = f"{'ab'[self.active]}{next(self.births)}"
        self.note(f"daemon {name} begins")
        self.daemons[self.active] = Daemon(
            name,
            url=self.repo.url,
            folder=self.folder / f"state-{self.active}",
            proxy=self.proxy,
            time=self.time,
            rng=random.Random(self.rng.random()),
            sending=self._sending,
        )

    def _kill(self, how: str) -> None:
        self.note(f"daemon {self.daemon.name} is killed, its files are {how}")
        self.daemon.kill()
        spoil(self.folder / f"state-{self.active}", how, self.rng)
        self._begin()

    def _sending(self, daemon: Daemon, sent: Sent) -> None:
        query = f"?{sent.query}" if sent.query else ""
        self.note(f"{daemon.name} {sent.method} {sent.path}{query}")
        if not sent.is_lease:
            self.calls.append(sent)
        self.checks.sending(daemon, sent)

    @property
    def calls(self) -> list[Sent]:
        return self.checks.calls

    def _clean(self) -> None:
        """Nothing of an earlier story is left, but for the namespaces."""
        for path in (SYSTEM, LEASES, *(self.names.folder(kind) for kind in FOLDERS)):
            self.api.request("DELETE", path)
        for proxy in self.bench.proxies:
            proxy.rules.clear()
            proxy.clear()

    def close(self) -> None:
        for daemon in filter(None, self.daemons):
            daemon.kill()
        self.repo.close()


def is_calm(line: str) -> bool:
    """A line after which a daemon has work, and nothing that it must wait for."""
    match line.split():
        case ["commit", *words]:
            return not {"break", "dead"} & set(words)
        case ["fault", kind, *_]:
            return kind in ("late", "slow")
        case [word, *_]:
            return word in {"run", "meet", "settle", "edit", "json", "apply", "extra", "delete", "unlabel", "wipe"}
    return False


def read_story(path: Path) -> list[str]:
    """The lines of a kept story, without what is said about it."""
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def tell(bench: Bench, lines: list[str]) -> None:
    """A whole story. When it goes wrong: its words and what happened are printed, and what was wrong is raised."""
    story = Story(bench)
    try:
        for line in lines:
            story.do(line)
        story.finish()
    except BaseException:
        print("the story:", *lines, "", "what happened (real seconds, the story's, what):", *story.log, sep="\n")
        raise
    finally:
        story.close()
