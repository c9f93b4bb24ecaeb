from __future__ import annotations
import os, random, asyncio, yaml, json
from collections import Counter
import pytest
from controlplane_kit import faults
from fleet_kit.fixtures import until, STATUS, OPTIONS
from test_everything import everything, put_secret, plane, states, encoded, text, deployment, bundle_files, except_parents, CHAT, APP, WEB, JOB, ROBOT, REQUEST, SECRET, DGX
import dataclasses
from gitops.plan.pruning import FuseLimits
pytestmark = [pytest.mark.controlplane, pytest.mark.e2e]
OPT = dataclasses.replace(OPTIONS, fuse=FuseLimits(count=1000, share=1.0))
async def test_storm(fleet, repo, plane):
    rng = random.Random(int(os.environ.get("SEED","0")))
    put_secret(plane, "one")
    # objects that exist by other means
    plane.create_namespace("app")
    plane.kubectl("apply", "-f", "-", stdin=deployment("web", "app", replicas=3, LEVEL="old", GONE="x"))
    since = plane.get("/api/v1/namespaces")["metadata"]["resourceVersion"]
    many = bundle_files("many", {f"m{i}.yaml": text("ConfigMap", f"m{i}", namespace="app", data={"k": "1"}) for i in range(40)})
    repo.commit({**everything("1"), **many}, "first")
    running = await fleet(repo, {DGX: plane}, options=OPT)
    proxy = running.proxies[DGX]
    def storm(p):
        r = random.Random(rng.random())
        acts = [faults.Answer(429,"TooManyRequests",retry_after=1), faults.Answer(500,"InternalError","internal error"), faults.Answer(503,"ServiceUnavailable","x"), faults.Answer(504,"Timeout","x"), faults.Cut(), faults.LoseAnswer(), faults.CutAfter(40), faults.Delay(0.3), faults.WatchError()]
        for a in acts:
            def m(q, a=a):
                if q.is_lease: return False
                if isinstance(a, faults.WatchError) and not q.is_watch: return False
                if isinstance(a, faults.LoseAnswer|faults.CutAfter) and q.is_watch: return False
                return r.random() < p/len(acts)
            proxy.fail(a, m, times=None)
    hands = [
      ("kubectl scale", lambda: plane.kubectl("scale","deploy/web","-n","app","--replicas=%d"%rng.randrange(1,9),check=False)),
      ("kubectl set env", lambda: plane.kubectl("set","env","deploy/web","-n","app","LEVEL=z",check=False)),
      ("kubectl label", lambda: plane.kubectl("label","deploy/web","-n","app","gitops/reconciler-","--overwrite",check=False)),
      ("kubectl annotate", lambda: plane.kubectl("annotate","cm/settings","-n",CHAT,"a=b","--overwrite",check=False)),
      ("apply client", lambda: plane.kubectl("apply","-f","-",stdin=deployment("web","app",replicas=4,LEVEL="mine"),check=False)),
      ("replace", lambda: plane.kubectl("replace","-f","-",stdin=text("ConfigMap","settings",namespace=CHAT,data={"level":"r","more":"x"}),check=False)),
      ("replace m3", lambda: plane.kubectl("replace","--force","-f","-",stdin=text("ConfigMap","m3",namespace="app",data={"k":"r"}),check=False)),
      ("delete orphan", lambda: plane.kubectl("delete","cm/m1","-n","app","--cascade=orphan","--wait=false",check=False)),
      ("copy edit", lambda: plane.kubectl("patch","secret","key","-n",CHAT,"-p",'{"data":{"token":"ZXZpbA=="}}',check=False)),
      ("robot delete", lambda: plane.kubectl("delete","robots/r2","-n","app","--wait=false",check=False)),
      ("rotate", lambda: put_secret(plane, rng.choice(["two","three"]))),
    ]
    storm(0.25)
    begun = asyncio.get_running_loop().time()
    version = 1
    for step in range(14):
        await asyncio.sleep(rng.random()*1.2)
        if rng.random() < 0.25:
            version += 1
            ch = everything(str(version), level=str(version))
            running.push(ch, f"v{version}")
            print("PUSH", version)
        else:
            n, f = rng.choice(hands); print("HAND", n, (str(await asyncio.to_thread(f)))[:80].strip())
        if step == 8:
            # one object moves between bundles, some leave
            ch = {f"bundles/many/manifests/m{i}.yaml": None for i in range(20, 30)}
            ch["bundles/app/manifests/m0.yaml"] = repo.read("bundles/many/manifests/m0.yaml"); ch["bundles/many/manifests/m0.yaml"] = None
            running.push(ch, "leave and move")
    proxy.rules.clear()
    put_secret(plane, "last")
    print("STORM", Counter(r.status for r in proxy.requests))
    t=asyncio.get_running_loop().time()
    try:
        await running.settled(timeout=90)
    finally:
        print("SETTLED after", asyncio.get_running_loop().time()-t)
        for u in running.engine.workers[DGX].state.units.values(): print("UNIT", u.key, u.outcome.state, u.outcome.sentence[:300], u.note)
    print("UNIT findings", [str(f) for f in running.engine.findings], running.engine._head.units.keys(), running.engine.workers[DGX].state.parents.keys())
    await until(lambda: (plane.get(SECRET) or {"data": 0})["data"] == {"token": encoded("last")}, "copy", timeout=60)
    await until(lambda: plane.get(WEB)["spec"]["replicas"] == 5 , f"5", timeout=40)
    await running.settled()
    names = {i["metadata"]["name"] for i in plane.get("/api/v1/namespaces/app/configmaps", labelSelector="gitops/reconciler=demo")["items"]}
    assert names == {f"m{i}" for i in range(40) if not 20 <= i < 30}, names
    assert all(i["data"] == {"k": "1"} for i in plane.get("/api/v1/namespaces/app/configmaps", labelSelector="gitops/reconciler=demo")["items"])
    w = plane.get(WEB)
    assert w["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name":"LEVEL","value":str(version)}], w["spec"]["template"]["spec"]["containers"][0]["env"]
    assert plane.get(JOB)["spec"]["template"]["spec"]["containers"][0]["image"] == f"example.com/a:{version}"
    assert plane.get(ROBOT)["spec"] == {"level": str(version)}
    assert plane.get(f"/api/v1/namespaces/{CHAT}/configmaps/settings")["data"]["level"] == str(version)
    print("settings", plane.get(f"/api/v1/namespaces/{CHAT}/configmaps/settings")["data"])
    for path in (REQUEST, WEB, JOB):
        seen = states(plane, path, since)
        uids = list(dict.fromkeys(s["metadata"]["uid"] for s in seen))
        print("UIDS", path, len(uids), version)
        if path == WEB: print("REPLICAS", values_of(seen))
        assert len(uids) <= (version if path == JOB else 1)
    items = plane.get("/api/v1/namespaces/gitops-system/configmaps", labelSelector="gitops/workload")["items"]
    members = {uid for i in items if "record" in i.get("data",{}) for kinds in json.loads(i["data"]["record"])["members"].values() for ns in kinds.values() for uid in ns.values()}
    live = {i["metadata"]["uid"] for p in ("/api/v1/namespaces","/api/v1/configmaps","/api/v1/secrets","/api/v1/serviceaccounts","/apis/apps/v1/deployments","/apis/batch/v1/jobs","/apis/autoscaling/v2/horizontalpodautoscalers","/apis/every.example/v1/robots","/apis/nvidia.com/v1beta1/dynamographdeploymentrequests","/apis/apiextensions.k8s.io/v1/customresourcedefinitions") for i in plane.get(p, labelSelector="applyset.kubernetes.io/part-of")["items"]}
    assert members == live, (members - live, live - members)
    # rest then restart
    await until(lambda: not running.engine.status_pending, "st")
    print("LEFT", running.status(f"status/clusters/{DGX}.yaml").get("leftBehind"))
    running.stop.set(); await running.task
    again = await fleet(repo, {DGX: plane}, name="two", options=OPT)
    await again.settled()
    assert except_parents(again.writes(DGX)) == [] , again.writes(DGX)
    assert again.writes(DGX) == []
def values_of(seen):
    out=[]
    for s in seen:
        v=s["spec"].get("replicas")
        if not out or out[-1]!=v: out.append(v)
    return out
