"""A store with many runs, written record by record as runs would leave it, without running anything."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from typing import Any

from components.contract.artifacts import ArtifactType, FileEntry, Manifest
from components.runtime.ledger.records import action_key, end_key, job_key, producer_key, run_key, stage_key, utc
from components.runtime.store.records import seal

Write = Callable[[str, bytes], object]
START = 1_790_000_000.0
STAGES = ("base", "curate", "sft", "rl", "replay", "choose", "evaluate", "compare", "second", "report")
OUTPUTS = {"curate": "dataset", "evaluate": "metrics", "compare": "metrics", "report": "report"}
TYPES = {"dataset": "Dataset", "metrics": "Metrics", "report": "Report", "model": "Model"}
SHARED_EVERY = 10
"""One run in so many reuses the first stage of the one before it."""


class FullStore:
    """Runs of ten stages in a chain, one artifact each."""

    def __init__(self, write: Write, uri: str, *, seed: int = 0) -> None:
        self._write, self._uri, self._random = write, uri, random.Random(seed)
        self.outputs: dict[tuple[str, str], dict[str, Any]] = {}
        """(run, stage) -> its output record."""
        self.run_ids: list[str] = []

    def fill(self, num_runs: int) -> None:
        """Write so many runs, a minute apart."""
        for number in range(num_runs):
            self.add(f"full-{number:08d}-000000-{number:04x}", START + 60.0 * number)

    def add(self, run_id: str, started: float) -> None:
        """Write one run that has succeeded."""
        self._put(run_key(run_id), self._run_entry(run_id, started))
        used: dict[str, Any] | None = None
        for index, stage in enumerate(STAGES):
            used = self._stage(run_id, stage, started + index, used)
        self._put(end_key(run_id), {"status": "succeeded", "ended": utc(started + 20), "seconds": 20.0})
        self.run_ids.append(run_id)

    def _stage(self, run_id: str, stage: str, started: float, used: dict[str, Any] | None) -> dict[str, Any]:
        port = OUTPUTS.get(stage, "model")
        earlier = self.run_ids[-1] if self.run_ids and stage == STAGES[0] else None
        hit = earlier is not None and len(self.run_ids) % SHARED_EVERY == 0
        mark = self._digest()
        before = STAGES[STAGES.index(stage) - 1]
        entry: dict[str, Any] = {
            "run_id": run_id, "recipe": "full", "stage": stage, "component": stage, "status": "done",
            "cache": "hit" if hit else "miss", "fingerprint": mark, "started": utc(started), "ended": utc(started + 1),
            "seconds": 1.0, "params": PARAMS, "seed": 7, "labels": {}, "group": None,
            "inputs": {"model": [{"type": used["type"], "digest": used["digest"], "source": f"{before}.{port}"}]}
            if used else {},
            "outputs": {}, "metrics": {"pass@1": 0.5, "loss": 1.25}, "gates": {}, "code": CODE, "error": None,
        }  # fmt: skip
        if hit:
            output = self.outputs[str(earlier), stage]
            entry["fingerprint"] = output["fingerprint"]
            entry["produced_by"] = {"run_id": output["run_id"], "stage": stage}
        else:
            output = self._artifact(run_id, stage, port, mark)
            parts = {"component": stage, "params": PARAMS, "seed": 7, "inputs": {}, "code": FILES, "epoch": 1}
            record = {name: output[name] for name in ("type", "digest", "uri", "size", "metadata")}
            action = {
                "fingerprint": mark, "component": stage, "parts": parts, "outputs": {port: record}, "metrics": {},
                "gates": {}, "expect": [], "seconds": 1.0, "run_id": run_id, "stage": stage,
            }  # fmt: skip
            self._put(action_key(mark), action)
        self.outputs[run_id, stage] = output
        entry["outputs"] = {port: {name: output[name] for name in ("type", "digest", "uri", "size", "metadata")}}
        self._put(job_key(run_id, stage), {"run_id": run_id, "stage": stage, "params": PARAMS, "inputs": {}})
        self._put(stage_key(run_id, stage), entry)
        return output

    def _artifact(self, run_id: str, stage: str, port: str, mark: str) -> dict[str, Any]:
        data = f"{run_id} {stage}".encode()
        entry = FileEntry(path="rows.jsonl", size=len(data), sha256=hashlib.sha256(data).hexdigest())
        manifest = Manifest(type=ArtifactType(TYPES[port]), files=(entry,), metadata={"rows": 64})
        tree = f"objects/{manifest.digest}"
        self._write(f"{tree}/files/rows.jsonl", data)
        self._write(f"{tree}/manifest.json", manifest.canonical())
        self._put(producer_key(manifest.digest, mark), {"fingerprint": mark, "port": port})
        where = f"{self._uri}/{tree}/files"
        facts = {"type": TYPES[port], "digest": manifest.digest, "uri": where, "size": len(data), "metadata": {}}
        return {**facts, "fingerprint": mark, "run_id": run_id}

    def _run_entry(self, run_id: str, started: float) -> dict[str, Any]:
        stages = [
            {"name": name, "component": name, "after": [], "group": None, "labels": {}, "pool": "cpu"}
            for name in STAGES
        ]
        return {
            "recipe": "full", "summary": "Many runs", "recipe_path": "full.yaml", "recipe_text": RECIPE,
            "recipe_digest": "cd" * 32, "plan_digest": self._digest(), "params": PARAMS, "overrides": [], "seed": 7,
            "engine": "local", "command": "posttrain run full", "stages": stages, "run_id": run_id, "store": self._uri,
            "started": utc(started), "code": CODE,
        }  # fmt: skip

    def _put(self, key: str, value: dict[str, Any]) -> None:
        self._write(key, seal(value))

    def _digest(self) -> str:
        return f"{self._random.getrandbits(256):064x}"


PARAMS = {"steps": 80, "optimizer": {"name": "muon", "rate": 0.02}, "method": "dapo", "batch": 64}
CODE = {"version": "0123abcd" * 5, "dirty": False, "lock": "ab" * 32}
FILES = {f"components/rl/file_{index}.py": "ab" * 32 for index in range(20)}
RECIPE = "name: full\nstages:\n" + "".join(f"  {name}: {{uses: {name}, with: {{steps: 80}}}}\n" for name in STAGES)


def write_below(root: Any) -> Write:
    """Return a function that writes blobs as files below `root`, without waiting for the disk."""

    def write(key: str, data: bytes) -> None:
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return write


def references(full: FullStore) -> Iterator[str]:
    """Yield the last model of every run, as `posttrain lineage` takes it."""
    for run_id in full.run_ids:
        yield f"{run_id}:second.model"
