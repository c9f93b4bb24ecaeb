"""`python -m model_kit run 5000 --seed 7 --into FOLDER`: tell so many random stories and keep those that went wrong.
`python -m model_kit tell FILE… --times 10`: tell stories again, as often as it takes to meet the same course.
`python -m model_kit shorten FILE`: leave out what it does not need to go wrong."""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import logging
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from controlplane_kit.controlplane import ControlPlane

from model_kit.stories import shorter, story_of
from model_kit.story import Bench, read_story, tell

PLANE = 500
"""Stories until the control plane is replaced: what they leave in etcd makes it slower."""


def shortened(bench: Bench, lines: list[str]) -> list[str]:
    """A story as short as it can be made that goes wrong at least once in three tellings."""
    again = True
    while again:
        tries = (less for less in shorter(lines) if any(told(bench, less) for _ in range(3)))
        found = next(tries, None)
        again, lines = found is not None, found or lines
    return lines


def told(bench: Bench, lines: list[str]) -> str:
    """ "" when it went well; else what was wrong, and all that happened."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            tell(bench, lines)
    except Exception:
        return f"{traceback.format_exc()}\n{said.getvalue()}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="model_kit", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run")
    run.add_argument("runs", type=int)
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--into", type=Path, default=Path("stories"))
    run.add_argument("--stop", action="store_true", help="at the first that goes wrong")
    again = verbs.add_parser("tell")
    again.add_argument("files", type=Path, nargs="+")
    again.add_argument("--times", type=int, default=1)
    short = verbs.add_parser("shorten")
    short.add_argument("file", type=Path)
    given_ = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if given_.verb == "run":
        seeds = range(given_.seed, given_.seed + given_.runs)
        _tell_all(((str(seed), story_of(seed)) for seed in seeds), into=given_.into, stop=given_.stop)
    elif given_.verb == "shorten":
        with _bench() as bench:
            print(*shortened(bench, read_story(given_.file)), sep="\n")
    else:
        kept = [(f.stem, read_story(f)) for f in given_.files for _ in range(given_.times)]
        _tell_all(iter(kept), into=Path(tempfile.mkdtemp()), stop=False)


def _tell_all(stories: Iterator[tuple[str, list[str]]], *, into: Path, stop: bool) -> None:
    into.mkdir(parents=True, exist_ok=True)
    began, runs, wrong = time.monotonic(), 0, 0
    while part := list(itertools.islice(stories, PLANE)):
        with _bench() as bench:
            for title, lines in part:
                runs += 1
                if found := told(bench, lines):
                    wrong += 1
                    file = into / f"{title}.txt"
                    file.write_text("\n".join([*lines, *(f"# {line}" for line in found.splitlines()), ""]))
                    print(f"{file} (run {runs}): {_in_short(found)}", flush=True)
                    if stop:
                        return
                if runs % 20 == 0:
                    mean = (time.monotonic() - began) / runs
                    print(f"{runs} runs, {wrong} wrong, {mean:.2f} s each", flush=True)
    print(f"{runs} runs, {wrong} wrong", flush=True)


@contextlib.contextmanager
def _bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with ControlPlane(folder / "plane") as plane, Bench.made(plane, folder) as bench:
            yield bench


def _in_short(found: str) -> str:
    lines = found.partition("\n\n")[0].splitlines()
    start = next((n for n, line in enumerate(lines) if line[:1].strip() and not line.startswith("Traceback")), 0)
    return " | ".join(lines[start:])[:300]


if __name__ == "__main__":
    main()
