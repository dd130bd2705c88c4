"""Plans: stable jobs, cache status and its reasons, estimates."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from components.contract.artifacts import ArtifactType
from components.contract.job import Job
from components.runtime.job.launch import Launch
from components.runtime.ledger.fingerprint import fingerprint
from components.runtime.ledger.records import action_key, stage_key
from components.runtime.store import Store, open_store
from pipelines.plan.forecast import Outlook, forecast
from pipelines.plan.plan import Plan, build_plan
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.writing import load, write

pytestmark = pytest.mark.usefixtures("toy_catalog")

RUN = "tiny-20250101-000000-aaaa"
TINY = str(Path(__file__).parents[1] / "recipes" / "tiny.yaml")
QUICKSTART_DIGEST = """
from pipelines.recipe.recipe import load_recipe
from pipelines.plan.plan import build_plan
print(build_plan(load_recipe("quickstart"), "store", "run").digest)
"""


def plan(*overrides: str, store: str = "s", run_id: str = RUN) -> Plan:
    return build_plan(load_recipe(TINY, overrides), store, run_id)


def test_jobs_hold_all_that_a_launcher_needs() -> None:
    jobs = {job.stage: job for job in plan(store="/a/store").jobs}
    rl = jobs["rl"]
    assert (rl.run_id, rl.recipe, rl.store, rl.component, rl.seed) == (RUN, "tiny", "/a/store", "rl", 7)
    assert (rl.resources.pool, rl.resources.gpus, rl.resources.cpus) == ("h100x8", 8, 96)
    assert (rl.after, rl.register_as, rl.timeout_seconds) == (["sft", "data"], "tiny-rl", 7200)
    assert Job.model_validate_json(rl.model_dump_json()) == rl


def test_the_digest_is_that_of_the_work() -> None:
    first = plan()
    assert first.digest == plan(store="elsewhere", run_id="tiny-20260101-000000-bbbb").digest
    assert first.digest == first.with_run_id("other").digest
    assert {job.run_id for job in first.with_run_id("other").jobs} == {"other"}
    assert first.digest != plan("rl_steps=81").digest
    assert first.digest != plan("seed=8").digest


def test_the_digest_does_not_depend_on_how_a_recipe_is_laid_out(tmp_path: Path) -> None:
    one = load(tmp_path, "stages:\n  base: {uses: pretrain, with: {layers: 2, tokenizer: t}, pool: cpu}\n")
    two = load(tmp_path, "stages:\n  base:\n    pool: cpu\n    with: {tokenizer: t, layers: 2}\n    uses: pretrain\n")
    assert build_plan(one, "s", "r").digest == build_plan(two, "s", "r").digest


@pytest.mark.parametrize("hash_seed", ["0", "1", "77"])
def test_the_digest_is_the_same_in_every_process(hash_seed: str) -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", QUICKSTART_DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", hash_seed)
    }
    assert len(outputs) == 1


# Forecasts, with records as the launcher leaves them


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def pretend(store: Store, done: Plan, *names: str, seconds: float = 36.0) -> None:
    """Record stages of a plan as executed, their outputs depending on their fingerprints only."""
    digests: dict[str, dict[str, str]] = {}
    for job in done.jobs:
        if job.stage not in names:
            continue
        stage = done.stage(job.stage)
        given: dict[str, list[str]] = {
            port: [digests[r.stage][r.port] for r in refs] for port, refs in job.inputs.items()
        }
        mark = fingerprint(stage.component, stage.config, given, stage.seed)
        digests[job.stage] = {port: _commit(store, f"{mark.digest} {port}") for port in stage.component.outputs}
        outputs = {port: {"digest": digest} for port, digest in digests[job.stage].items()}
        action: dict[str, Any] = {
            "fingerprint": mark.digest,
            "component": job.component,
            "parts": mark.parts,
            "outputs": outputs,
            "metrics": {"pass_at_1": 0.8, "loss": 1.0},
            "seconds": seconds,
            "run_id": done.run_id,
            "stage": job.stage,
        }
        store.put(action_key(mark.digest), action)
        entry = {
            "stage": job.stage,
            "component": job.component,
            "status": "done",
            "cache": "miss",
            "fingerprint": mark.digest,
            "seconds": seconds,
        }
        store.put(stage_key(done.run_id, job.stage), entry)


def outlook(store: Store, planned: Plan) -> dict[str, str]:
    return {item.job.stage: f"{item.outlook}: {item.reason}" for item in forecast(planned, store)}


ALL = ("base", "data", "sft", "rl", "before", "after")


def test_nothing_is_cached_in_an_empty_store(store: Store, tmp_path: Path) -> None:
    assert set(outlook(store, plan()).values()) == {"run: never run"}
    assert not (tmp_path / "store").exists()


def test_everything_is_cached_after_a_run(store: Store) -> None:
    pretend(store, plan(), *ALL)
    assert outlook(store, plan()) == {name: f"cached: made by {name} of run {RUN}" for name in ALL}


def test_a_change_reruns_what_depends_on_it_and_says_why(store: Store) -> None:
    pretend(store, plan(), *ALL)
    assert outlook(store, plan("rl_steps=81")) == {
        **{name: f"cached: made by {name} of run {RUN}" for name in ("base", "data", "sft", "before")},
        "rl": "run: parameter steps: 80 -> 81",
        "after": "run: input model: made by rl, which will run",
    }
    sft = outlook(store, plan("stages.sft.with.optimizer={name: muon, peak_learning_rate: 0.05}", "stages.sft.seed=8"))
    assert sft["sft"] == (
        "run: parameter optimizer.name: adamw -> muon; parameter optimizer.peak_learning_rate: 0.001 -> 0.05; "
        "seed 7 -> 8"
    )
    assert sft["rl"] == "run: input model: made by sft, which will run"


def test_the_newest_run_is_the_one_compared_with(store: Store) -> None:
    pretend(store, plan(), *ALL)
    pretend(store, plan("rl_steps=90", run_id="tiny-20250301-000000-cccc"), *ALL)
    pretend(store, plan("rl_steps=85", run_id="tiny-other-20260101-000000-dddd"), *ALL)  # of another recipe
    assert outlook(store, plan("rl_steps=91"))["rl"] == "run: parameter steps: 90 -> 91"


def _commit(store: Store, text: str) -> str:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "text").write_text(text)
        return store.commit(ArtifactType.REPORT, Path(name)).digest


def test_a_deleted_artifact_will_be_made_anew(store: Store) -> None:
    pretend(store, plan(), "base")
    assert outlook(store, plan())["base"].startswith("cached")
    for digest in list(store.digests()):
        store.delete(digest)
    assert outlook(store, plan())["base"] == "run: its earlier result is gone from the store"


def test_a_result_that_is_gone_says_so(store: Store, tmp_path: Path) -> None:
    done = plan()
    pretend(store, done, "base")
    (stage,) = [item for item in forecast(done, store) if item.job.stage == "base"]
    other = open_store(str(tmp_path / "other"))
    other.put(stage_key(RUN, "base"), store.get(stage_key(RUN, "base")) or {})
    assert outlook(other, done)["base"] == "run: never run"  # nothing tells what it was
    assert stage.fingerprint is not None


def test_metrics_that_are_cached_decide_conditions(store: Store) -> None:
    pretend(store, plan(), "base", "data", "sft", "rl", "before")
    assert outlook(store, plan())["after"] == "run: never run"
    strict = plan("stages.after.when=before.pass_at_1 < 0.5")
    assert outlook(store, strict)["after"] == "skip: when before.pass_at_1 < 0.5 does not hold"


def test_estimates_have_a_basis_or_say_so(store: Store) -> None:
    by_name = {item.job.stage: item for item in forecast(plan(), store)}
    assert (by_name["rl"].gpu_hours, by_name["base"].gpu_hours) == (None, 0.0)
    pretend(store, plan(), *ALL, seconds=900.0)
    by_name = {item.job.stage: item for item in forecast(plan("rl_steps=81"), store)}
    assert by_name["rl"].gpu_hours == pytest.approx(901.5 / 3600 * 8), "1.5 s of start-up are assumed"
    assert by_name["sft"].gpu_hours == 0.0
    moved = {
        item.job.stage: item for item in forecast(plan("stages.after.with.samples=2", "stages.after.pool=l4x1"), store)
    }
    assert moved["after"].gpu_hours == pytest.approx(901.5 / 3600)
    assert moved["after"].amount.prices == {} and moved["after"].amount.without_price == {"l4x1"}


def test_local_inputs_are_hashed(store: Store, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": "1"}\n')
    text = "stages:\n  sft: {uses: sft, in: {model: hf:a/b, dataset: ./rows.jsonl}}\n"
    recipe = load_recipe(str(write(tmp_path, text)))
    (item,) = forecast(build_plan(recipe, store.uri, RUN), store)
    assert (item.outlook, item.reason, item.fingerprint) == (Outlook.RUN, "never run", None)
    manifest_type = recipe.stages[0].component.inputs["dataset"].type
    assert manifest_type is ArtifactType.DATASET


def test_the_order_in_which_settings_were_written_changes_nothing(toy_catalog: None, tmp_path: Path) -> None:
    fixed = {"run_id": "r", "recipe": "r", "stage": "sft", "component": "sft", "inputs": {}, "seed": 0}
    store = open_store(str(tmp_path / "store"))
    notes = {"b": "1", "a": "2"}
    launches = [
        Launch(Job(**fixed, store=store.uri, params={"notes": dict(order)}), print, store=store)
        for order in (notes.items(), reversed(notes.items()))
    ]
    assert [list(launch.params.notes) for launch in launches] == [["a", "b"], ["a", "b"]]
