"""Figures of a benchmark: printed as they come, kept for a table or a file."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: of what, of which size or case ("": there is only one), and what it should be."""

    about: str
    case: str
    name: str
    value: float | str
    unit: str
    target: str

    @property
    def shown(self) -> str:
        if isinstance(self.value, str):
            return self.value
        return f"{self.value:,.0f}" if abs(self.value) >= 1000 else f"{self.value:,.3g}"


@dataclass(slots=True)
class Table:
    """Figures as they come."""

    figures: list[Figure] = field(default_factory=list)
    about: str = ""
    case: str = ""

    def begin(self, about: str, case: str = "") -> None:
        """What the following figures are of."""
        self.about, self.case = about, case
        print(f"\n{about}{', ' if case else ''}{case}", flush=True)

    def add(self, name: str, value: float | str, unit: str = "", target: str = "") -> None:
        figure = Figure(self.about, self.case, name, value, unit, target)
        self.figures.append(figure)
        print(f"  {name:64} {figure.shown:>10} {unit:4} {'target ' + target if target else ''}", flush=True)

    def times(self, name: str, seconds: Sequence[float], *, unit: str = "s", p50: str = "", p99: str = "") -> None:
        """Median and 99th percentile of times in seconds, shown in `unit`; the other two are targets."""
        scale = 1000 if unit == "ms" else 1
        self.add(f"{name}: p50", scale * percentile(seconds, 0.5), unit, p50)
        self.add(f"{name}: p99", scale * percentile(seconds, 0.99), unit, p99)

    def markdown(self) -> str:
        """A row for each figure, a column for each case."""
        cases = list(dict.fromkeys(f.case for f in self.figures))
        rows: dict[tuple[str, str, str], dict[str, str]] = {}
        for f in self.figures:
            rows.setdefault((f.about, f.name, f.target), {})[f.case] = f"{f.shown} {f.unit}".strip()
        lines = [f"| | target | {' | '.join(cases)} |", "|---|---|" + "---|" * len(cases)]
        for (about, name, target), values in rows.items():
            lines.append(f"| {about}: {name} | {target} | {' | '.join(values.get(case, '') for case in cases)} |")
        return "\n".join(lines) + "\n"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Where the figures go, besides the terminal."""
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument("--markdown", type=Path, help="and as a table to this one")


def begun() -> str:
    """Say what it runs on, in one line, and give that."""
    text = Path("/proc/cpuinfo").read_text()
    model = next((line for line in text.splitlines() if "model name" in line), "").partition(":")[2].strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    line = f"{os.cpu_count()} cores ({model or platform.machine()}), {memory:.0f} GiB, {system}, {load}"
    print(line, flush=True)
    return line


def write(table: Table, ran_on: str, options: argparse.Namespace) -> None:
    """Write the files that `add_options` offered."""
    if options.markdown:
        options.markdown.write_text(f"{ran_on}.\n\n{table.markdown()}")
    if options.json:
        options.json.write_text(json.dumps({"machine": ran_on, "figures": [*map(asdict, table.figures)]}, indent=1))


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
