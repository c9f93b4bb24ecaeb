"""`python -m model_kit run 5000 --seed 7 --into FOLDER`: tell so many random stories and keep those that went wrong.
`python -m model_kit tell FILE… --times 10`: tell stories again, as often as it takes to meet the same course."""

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
from hypothesis import HealthCheck, Phase, given, seed, settings

from model_kit.stories import STORIES
from model_kit.story import Bench, read_story, tell

BATCH = 50
PLANE = 500
"""Stories until the control plane is replaced: what they leave in etcd makes it slower."""


def drawn(first: int) -> Iterator[tuple[str, list[str]]]:
    """Stories without end, each with its name: the seed of its batch and its number there."""
    for batch in itertools.count(first):
        yield from ((f"{batch}-{number}", lines) for number, lines in enumerate(_batch(batch)))


def _batch(number: int) -> list[list[str]]:
    found: list[list[str]] = []

    @seed(number)
    @settings(
        max_examples=BATCH,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(STORIES)
    def draw(lines: list[str]) -> None:
        found.append(lines)

    draw()
    return found


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
    given_ = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if given_.verb == "run":
        stories = itertools.islice(drawn(given_.seed), given_.runs)
        _tell_all(stories, into=given_.into, stop=given_.stop)
    else:
        kept = [(f.stem, read_story(f)) for f in given_.files for _ in range(given_.times)]
        _tell_all(iter(kept), into=Path(tempfile.mkdtemp()), stop=False)


def _tell_all(stories: Iterator[tuple[str, list[str]]], *, into: Path, stop: bool) -> None:
    into.mkdir(parents=True, exist_ok=True)
    began, runs, wrong = time.monotonic(), 0, 0
    while part := list(itertools.islice(stories, PLANE)):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name)
            with ControlPlane(folder / "plane") as plane, Bench.made(plane, folder) as bench:
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


def _in_short(found: str) -> str:
    lines = found.partition("\n\n")[0].splitlines()
    start = next((n for n, line in enumerate(lines) if line[:1].strip() and not line.startswith("Traceback")), 0)
    return " | ".join(lines[start:])[:300]


if __name__ == "__main__":
    main()
