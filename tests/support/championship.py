"""A champion whose result is cached: the run before it adopted the same model as its candidate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from components.contract.artifacts import ArtifactType
from components.contract.job import Approval, Job, UriRef
from components.runtime.job.launch import Launch
from components.runtime.job.progress import text_lines
from components.runtime.ledger.records import run_key, save_job
from components.runtime.lineage.registry import find_version
from components.runtime.store import Store

RECIPE, STAGE = "crowning", "champion"


@dataclass(frozen=True)
class Championship:
    """A run in the store whose only stage is cached and asks before it registers crowned@champion."""

    store: Store
    job: Job

    @classmethod
    def prepare(cls, store: Store, run_id: str, engine: str, folder: Path) -> Championship:
        """Make the model, adopt it in another run, and begin this one."""
        (folder / "model").mkdir()
        (folder / "model" / "model.json").write_text("4")
        digest = store.commit(ArtifactType.MODEL, folder / "model", {}).digest
        common = {"recipe": RECIPE, "component": "adopt", "params": {}, "seed": 0, "store": store.uri}
        inputs: dict[str, list[UriRef]] = {"model": [UriRef(uri=f"artifact:{digest}")]}
        Launch(Job(run_id="before-1", stage="candidate", inputs=inputs, **common), text_lines(), store=store).run()
        asks = {"approve": Approval(message="Make this the champion?"), "register_as": "crowned"}
        asks["register_aliases"] = ["champion"]
        job = Job(run_id=run_id, stage=STAGE, inputs=inputs, **common, **asks)
        save_job(store, job)
        stages = [{"name": STAGE, "component": "adopt", "after": [], "needs_approval": True}]
        store.put(run_key(run_id), {"run_id": run_id, "recipe": RECIPE, "engine": engine, "stages": stages})
        return cls(store, job)

    @property
    def champion(self) -> str | None:
        """Return the digest of the champion, if there is one."""
        version = find_version(self.store, "crowned@champion")
        return version["digest"] if version else None

    @property
    def digest(self) -> str:
        """Return the model's digest."""
        (reference,) = self.job.inputs["model"]
        assert isinstance(reference, UriRef)
        return reference.uri.removeprefix("artifact:")
