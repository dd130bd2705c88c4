"""Kept optimisers: two stages with the averages handed on are one stage of two phases; refusals, and a killed stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from components.contract.backends import Backends
from components.contract.errors import InputError
from components.rl.component import COMPONENT
from components.rl.params import RLParams
from components.tasks.seeds import derive_seed
from tests.stages.rl_stage import PARAMS, item, make_model
from tests.stages.test_rl_distillation import make_teacher
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

pytestmark = pytest.mark.usefixtures("one_thread")

BASE: dict[str, Any] = PARAMS | {
    "method": "reinforce",
    "steps": 3,
    "prompts_per_step": 1,
    "group_size": 8,
    "start_kl_every": 0,
    "save_every": 0,
    "checkpoint_every": 1,
    "regularizers": [],
    "reference": "none",
    "keep_optimizer": True,
}
NAMES = ("adamw", "muon")


def settings(name: str) -> dict[str, Any]:
    return {"optimizer": {"name": name, "peak_learning_rate": 5e-3, "warmup_steps": 0, "schedule": "constant"}}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("inputs")
    return {"model": make_model(folder / "model"), "dataset": [write_jsonl(folder / "prompts", [item(0)])]}


def run(folder: Path, inputs: dict[str, Any], name: str = "adamw", **given: Any) -> Finished:
    stop_after, seed = given.pop("stop_after", None), given.pop("seed", 3)
    params = BASE | settings(name) | given
    return run_stage(COMPONENT, folder, params=params, inputs=inputs, seed=seed, stop_after=stop_after)


def after(first: Finished, inputs: dict[str, Any], *, kept: bool = True) -> dict[str, Any]:
    own = {"optimizer": first.outputs["optimizer"]} if kept else {}
    return inputs | {"model": first.outputs["model"], **own}


@pytest.mark.parametrize("name", NAMES)
def test_two_stages_are_two_phases_of_one(name: str, inputs: dict[str, Any], tmp_path: Path) -> None:
    anew = {"carry": {"seed": "reset", "ledger": "reset"}}
    phases = [{"name": "one", "steps": 3}, {"name": "two", "steps": 3, **anew}]
    whole = run(tmp_path / "whole", inputs, name, steps=6, phases=phases)
    first = run(tmp_path / "first", inputs, name)
    seed = derive_seed(3, "phase", "two")  # a phase that resets its seed takes this one
    second = run(tmp_path / "second", after(first, inputs), name, seed=seed)
    fresh = run(tmp_path / "fresh", after(first, inputs, kept=False), name, seed=seed)
    assert second.digests["model"] == whole.digests["model"] != fresh.digests["model"]
    assert second.digests["optimizer"] == whole.digests["optimizer"]


def test_a_killed_stage_goes_on_with_its_own_averages(inputs: dict[str, Any], tmp_path: Path) -> None:
    first = run(tmp_path / "first", inputs)
    straight = run(tmp_path / "straight", after(first, inputs))
    with pytest.raises(Interrupted):
        run(tmp_path / "killed", after(first, inputs), stop_after=2)
    assert run(tmp_path / "killed", after(first, inputs)).digests == straight.digests


def test_averages_of_another_optimiser_or_model_are_refused(inputs: dict[str, Any], tmp_path: Path) -> None:
    first = run(tmp_path / "first", inputs)
    with pytest.raises(InputError, match="are of 'adamw', and the stage trains with 'muon'"):
        run(tmp_path / "muon", after(first, inputs), "muon")
    other = after(first, inputs) | {"model": make_teacher(tmp_path / "wider")}
    with pytest.raises(InputError, match=r"are of another model: .* there and .* here"):
        run(tmp_path / "wider", other)


def test_the_output_is_there_only_where_it_is_kept() -> None:
    assert "optimizer" not in COMPONENT.formed(RLParams()).outputs
    assert "optimizer" in COMPONENT.formed(RLParams(keep_optimizer=True)).outputs


def test_adapters_and_divided_averages_are_refused() -> None:
    with pytest.raises(ValidationError, match="adapters are merged"):
        RLParams.model_validate({"keep_optimizer": True, "lora": {}})
    assert COMPONENT.refuses_backends is not None
    kept = RLParams(keep_optimizer=True)
    assert not list(COMPONENT.refuses_backends(kept, Backends()))
    for cut in (Backends(trainer="fsdp"), Backends(trainer="deepspeed", zero_stage=1)):
        assert any("divides the averages" in line for line in COMPONENT.refuses_backends(kept, cut))
