"""Cost of readiness on the recorded objects: `python tests/bench/bench_readiness.py [folder of recordings]`.

Target: at most 50 µs for one look at a common kind. Prints; asserts nothing.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from gitops.model.identity import GroupKind, UnitKey
from gitops.readiness.aggregating import DeclaredStatus, unit_status
from gitops.readiness.evaluating import evaluate
from gitops.readiness.mapping import Mappings
from gitops.readiness.owners import OwnerIndex, project, ref_of
from gitops.readiness.statuses import Role
from gitops.report.status_files import UnitReport, render_unit

NOW = datetime.fromisoformat("2026-11-30T14:00:00Z").timestamp()


def microseconds(call: Callable[[], object], *, seconds: float = 0.2) -> float:
    """Mean CPU time of one call (others may use the machine)."""
    count, started = 0, time.process_time()
    while time.process_time() - started < seconds:
        for _ in range(20):
            call()
        count += 20
    return (time.process_time() - started) / count * 1e6


def main() -> None:
    default = Path(__file__).resolve().parents[3] / "shared" / "recordings"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    if not folder.is_dir():
        print("bench_readiness needs recordings of operators: name their folder")
        return
    started = time.perf_counter()
    mappings = Mappings.shipped()
    print(f"read and compile the shipped mappings   {(time.perf_counter() - started) * 1e3:8.1f} ms")
    objects: dict[str, list[dict[str, Any]]] = defaultdict(list)
    latest: dict[str, dict[str, Any]] = {}
    for name in ("dynamo-graph", "nim-service"):
        with gzip.open(folder / f"{name}.jsonl.gz") as lines:
            for line in lines:
                row = json.loads(line)
                objects[row["object"]["kind"]].append(row["object"])
                if name == "dynamo-graph" and row["t"] < 70:
                    latest[row["object"]["metadata"]["uid"]] = row["object"]
    print(f"\n{'kind':28} {'first look':>10} {'next look':>10} {'project':>10}   µs (mean over states)")
    for kind, found in sorted(objects.items()):
        sample = found[:: max(1, len(found) // 8)][:8]
        first = next_ = projected = 0.0
        for obj in sample:
            mapping = mappings.for_object(obj)
            _, memory = evaluate(obj, mapping, now=NOW)
            first += microseconds(lambda o=obj, m=mapping: evaluate(o, m, now=NOW), seconds=0.02)
            next_ += microseconds(lambda o=obj, m=mapping, k=memory: evaluate(o, m, now=NOW, memory=k), seconds=0.02)
            projected += microseconds(lambda o=obj, m=mapping, k=memory: project(o, m, now=NOW, memory=k), seconds=0.02)
        count = len(sample)
        print(f"{kind:28} {first / count:10.1f} {next_ / count:10.1f} {projected / count:10.1f}")
    owners, declared = OwnerIndex(), []
    for obj in latest.values():
        if obj["kind"] == "DynamoGraphDeployment":
            status, _ = evaluate(obj, mappings.for_object(obj), now=NOW)
            declared.append(DeclaredStatus(ref_of(obj), status, uid=obj["metadata"]["uid"]))
        else:
            owners.put(project(obj, mappings.for_object(obj), now=NOW))
    roles = {GroupKind("nvidia.com", "DynamoComponentDeployment"): Role.GATE}
    verdict, memory = unit_status(declared, owners=owners, now=NOW, roles=roles)
    cost = microseconds(lambda: unit_status(declared, owners=owners, now=NOW, roles=roles, memory=memory))
    print(f"\nunit_status of one graph, {len(owners)} secondary objects   {cost:8.1f} µs")
    report = UnitReport(UnitKey.parse("function/f/h100-0@c"), verdict, commit="abc")
    _, data = render_unit(report)
    print(f"render_unit                              {microseconds(lambda: render_unit(report)):8.1f} µs")
    cost = microseconds(lambda: render_unit(report, previous=data))
    print(f"render_unit, compared with the old file  {cost:8.1f} µs")


if __name__ == "__main__":
    main()
