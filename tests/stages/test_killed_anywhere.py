"""SIGKILL anywhere in a stage, by the launcher on a real store: it goes on and ends with the bytes of a straight run.

Two instants of each stage by default, ten on demand (`-m slow`).
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.stages.preference.data import other_model, pairs_folder
from tests.stages.rl_stage import PARAMS, item, make_model
from tests.stages.supervised_data import base_model
from tests.stages.test_rl_distillation import make_teacher
from tests.support.killed import Ended, Killable, instants, preload
from tests.support.stage_context import write_jsonl

TRAINED: dict[str, Any] = {
    "steps": 6,
    "batch_size": 8,
    "checkpoint_every": 2,
    "save_every": 4,
    "optimizer": {"name": "muon", "peak_learning_rate": 0.02, "schedule": "cosine"},
}
RL: dict[str, Any] = PARAMS | {"method": "rloo"}
JUDGE = {
    "name": "judge",
    "template": "{response}=",
    "fence": "quoted",
    "mark": "",
    "reading": "probability",
    "labels": {"y": 1, "n": 0},
    "min_mass": 0,
    "keep": 9,
}


def compared(folder: Path) -> Killable:
    """Pairs against another model, with models kept on the way and held-out pairs."""
    model, data = base_model(folder / "model"), pairs_folder(folder / "data")
    reference = other_model(folder / "reference", model)
    inputs = {"model": [model], "dataset": [data], "validation": [data], "reference": [reference]}
    return Killable("preference", TRAINED, inputs)


def labelled(folder: Path) -> Killable:
    """KTO, whose divergence is measured in each step, with adapters."""
    inputs = {"model": [base_model(folder / "model")], "dataset": [pairs_folder(folder / "data")]}
    return Killable("preference", TRAINED | {"preference_loss": "kto", "lora": {"rank": 2}}, inputs)


def scored(folder: Path) -> Killable:
    """A reward model of several heads, each of which learns from pairs of its own."""
    inputs = {"model": [base_model(folder / "model")], "dataset": [pairs_folder(folder / "data")]}
    return Killable("reward_model", TRAINED | {"scorer_loss": "gaussian_ensemble", "holdout": 0.3}, inputs)


def merged(folder: Path) -> Killable:
    """A sweep over mergers that draw at random."""
    base = base_model(folder / "base")
    models = [other_model(folder / name, base) for name in ("first", "second")]
    params = {"merger": {"name": "dare", "drop": 0.5}, "sweep": {"scale": [0.5, 1.0]}}
    return Killable("merge", params, {"models": models, "base": [base]})


def learning(folder: Path, **ports: Path) -> dict[str, list[Path]]:
    """Return the inputs of rl, with further models."""
    prompts = write_jsonl(folder / "prompts", [item(index) for index in range(10)])
    return {"model": [make_model(folder / "model")], "dataset": [prompts], **{port: [at] for port, at in ports.items()}}


def distilled(folder: Path) -> Killable:
    """On-policy distillation."""
    params = PARAMS | {"method": "reinforce", "objective": {"name": "distill", "divergence": "jsd", "top_k": 20}}
    return Killable("rl", params, learning(folder, teachers=make_teacher(folder / "teacher")))


def judged(folder: Path) -> Killable:
    """A judge as the reward; of its verdicts fewer are kept than there are."""
    return Killable("rl", RL | {"rewards": [JUDGE]}, learning(folder, judges=make_teacher(folder / "judge")))


def rewarded(folder: Path) -> Killable:
    """A reward model as the reward, trained here."""
    data = pairs_folder(folder / "pairs", [{"prompt": f"letter {n}", "chosen": "z", "rejected": "a"} for n in range(9)])
    start = make_model(folder / "start")
    made = Killable("reward_model", {"steps": 2, "batch_size": 8}, {"model": [start], "dataset": [data]})
    digest = made.run(folder / "store").outputs["model"]
    (scorer,) = (folder / "store").glob(f"objects/{digest}/files")
    return Killable("rl", RL | {"rewards": ["scorer"]}, learning(folder, scorers=scorer))


STAGES: dict[str, Callable[[Path], Killable]] = {
    "preference": compared,
    "preference-kto": labelled,
    "reward_model": scored,
    "merge": merged,
    "rl-distill": distilled,
    "rl-judge": judged,
    "rl-scorer": rewarded,
}


@pytest.fixture(scope="module", params=sorted(STAGES))
def straight(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Killable, Ended]:
    """A stage and its run without interruption."""
    preload()
    folder = tmp_path_factory.mktemp(request.param)
    stage = STAGES[request.param](folder)
    whole = stage.run(folder / "straight")
    assert whole.code == 0 and whole.outputs
    return request.param, stage, whole


@pytest.mark.parametrize("count", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_anywhere_it_ends_with_the_same_bytes(
    straight: tuple[str, Killable, Ended], tmp_path: Path, count: int
) -> None:
    name, stage, whole = straight
    began, left = time.monotonic(), []
    for number, at in enumerate(instants(whole.events, count, seed=count)):
        store = tmp_path / f"store-{number}"
        killed = stage.run(store, at=at)
        assert killed.code == -signal.SIGKILL and not killed.outputs, at
        left.append(killed.partials[-1] if killed.partials else 0)
        again = stage.run(store)
        assert (again.code, again.outputs) == (0, whole.outputs), at
        assert not left[-1] or again.events < whole.events, "it goes on from its checkpoint"
    print(
        f"{name}: {count} kills of {whole.events:,} events, after checkpoints {left}, {time.monotonic() - began:.0f} s"
    )
