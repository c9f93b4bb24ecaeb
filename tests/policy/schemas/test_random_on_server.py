"""Random schemas with random values: our verdict and the real API server's."""

import os

import pytest
from controlplane_kit import ApiServer
from schema_kit.random_schemas import Schemas
from schema_kit.server import GROUP, Asking, definition, disagreement, kind_of

from gitops.policy.verdicts import Verdict

pytestmark = pytest.mark.controlplane

SEEDS = [int(seed) for seed in os.environ.get("GITOPS_SEEDS", "1,2").split(",")]
FIELDS, VALUES = 40, 30


@pytest.mark.parametrize("seed", SEEDS)
def test_random_schemas(seed: int, shared_api: ApiServer) -> None:
    schemas = Schemas(seed)
    fields = {f"f{at}": schemas.schema() for at in range(FIELDS)}
    crd = definition(f"Random{seed}", {"type": "object", "properties": fields})
    shared_api.create_crd_objects([crd])
    kind, wrong, seen = kind_of(crd), [], dict.fromkeys(Verdict, 0)
    collection = f"/apis/{GROUP}/v1/namespaces/default/random{seed}s"
    with Asking(shared_api) as asking:
        for field, schema in fields.items():
            for _ in range(VALUES):
                body = {"apiVersion": f"{GROUP}/v1", "kind": f"Random{seed}", "metadata": {"name": "r"}}
                body[field] = schemas.value(schema)
                seen[kind.judge(body).verdict] += 1
                if said := disagreement(asking, collection, kind, body):
                    wrong.append(f"{schema}\n{said}")
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:20])
    assert seen[Verdict.VALID] > 100
    assert seen[Verdict.INVALID] > 100
    assert seen[Verdict.UNVERIFIED] < 50, seen
