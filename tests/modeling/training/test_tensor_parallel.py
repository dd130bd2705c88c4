"""Tensor groups of two and four ranks take the steps that one process takes, beside FSDP and alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from components.modeling.generation.sampler import NativeSampler
from components.modeling.training.training_state import TrainingState, load_training_state, save_training_state
from tests.modeling.decoder_models import build
from tests.modeling.training.ranks_script import SAVED_AT, STEPS, sampled, steps
from tests.modeling.training.tensor_script import JOBS, WAYS, gradients, load, save_task_model, scores, trainer_of

pytestmark = pytest.mark.timeout(1500)
ROOT = Path(__file__).parents[3]
LAYOUTS = {"2": (2, 2), "4": (4, 4), "2x2": (4, 2)}
"""Ranks, and those of a tensor group."""
OF_JOBS = "qwen3"
"""The model of `copies`."""
LIGHT = pytest.param("2", "light", marks=pytest.mark.slow)
"""What runs without `make test-deepspeed`, with the slow tests: 22 CPU seconds."""
EACH = [(layout, way) for layout in LAYOUTS for way in WAYS if way != "light"]


def close(way: str) -> float:
    """Return how far losses and gradients may be apart, relative to their size: as sums in another order are."""
    return {"float32": 1e-5, "bfloat16": 2e-2}.get(way, 1e-12)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what one process finds in a way, and the folder with the models and its checkpoints."""
    folder = tmp_path_factory.mktemp("alone")

    @cache
    def run(way: str) -> dict[str, Any]:
        if not (folder / WAYS[way][0]).exists():
            build(WAYS[way][0]).save_pretrained(folder / WAYS[way][0])
        policy = load(folder, way, sharded=False)
        trainer, scored = trainer_of(policy, way, sharded=False), scores(policy)
        rows = steps(trainer, 0, SAVED_AT)
        saved = folder / f"{way}-one"
        saved.mkdir()
        save_training_state(saved, TrainingState(SAVED_AT), policy=policy, trainer=trainer)()
        rows += steps(trainer, SAVED_AT, STEPS)
        trainer.save(folder / f"{way}-alone")
        own = gradients(trainer_of(load(folder, way, sharded=False), way, sharded=False))
        return {"rows": rows, "scores": scored, "drawn": sampled(NativeSampler(policy)), "gradients": own}

    run.folder = folder  # type: ignore[attr-defined]
    return run


@pytest.fixture(scope="module")
def ranks(alone: Any, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    """Return what the ranks of a layout find in all ways that are tested, in a folder of their own."""
    wanted = {(item.callspec.params["layout"], item.callspec.params.get("way")) for item in _items(request)}

    @cache
    def run(layout: str) -> tuple[Path, dict[str, Any]]:
        ways = [way for way in (*WAYS, *JOBS) if (layout, way) in wanted]
        folder, (world, tensor) = tmp_path_factory.mktemp(f"tensor-{layout}"), LAYOUTS[layout]
        for way in (OF_JOBS if way in JOBS else way for way in ways):
            alone(way)
            for name in (WAYS[way][0], f"{way}-one"):
                if not (folder / name).exists():
                    (folder / name).symlink_to(alone.folder / name)
        if {"rl", "rl-layers"} & {*ways}:
            save_task_model(folder / "task")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        script = str(Path(__file__).with_name("tensor_script.py"))
        started = [
            subprocess.Popen(
                [sys.executable, script, str(folder), str(rank), str(world), str(tensor), *ways],
                env=environment,
                stderr=(folder / f"errors-{rank}").open("w"),
            )
            for rank in range(world)
        ]
        codes = [rank.wait(timeout=1400) for rank in started]
        assert codes == [0] * world, "\n".join((folder / f"errors-{r}").read_text()[-1500:] for r in range(world))
        return folder, json.loads((folder / "found.json").read_text())

    return run


def _items(request: pytest.FixtureRequest) -> list[Any]:
    return [item for item in request.session.items if item.path == Path(__file__) and hasattr(item, "callspec")]


@pytest.mark.parametrize(
    ("layout", "way"), [LIGHT, *(pytest.param(*each, marks=pytest.mark.deepspeed) for each in EACH)]
)
def test_parts_take_the_steps_of_one(alone: Any, ranks: Any, layout: str, way: str) -> None:
    folder, found = ranks(layout)
    one, (world, _) = alone(way), LAYOUTS[layout]
    assert sum(found[way]["kept"]) == sum(tensor.numel() for tensor in one["gradients"].values())  # stored once
    assert max(found[way]["held"]) < 1.6 * found[way]["size"] / world
    for name, values in one["scores"].items():
        assert found[way]["scores"][name] == pytest.approx(values, rel=close(way), abs=close(way)), name
    # Of bfloat16 the updates differ by whole roundings: losses stay close, and gradients drift apart after a few.
    judged = SAVED_AT if way == "bfloat16" else STEPS
    assert found[way]["rows"][:judged] == [pytest.approx(row, rel=10 * close(way)) for row in one["rows"][:judged]]
    if way == "bfloat16":
        assert [loss for loss, _ in found[way]["rows"]] == pytest.approx(
            [loss for loss, _ in one["rows"]], rel=close(way)
        )
        return
    mine = torch.load(folder / f"{way}-gradients")
    assert mine.keys() == one["gradients"].keys()
    for name, gradient in one["gradients"].items():
        apart = (mine[name] - gradient).norm() / gradient.norm().clamp_min(1e-9)
        assert float(apart) < 10 * close(way), name
    ours, theirs = (
        load_file(path / "model.safetensors") for path in (folder / f"{way}-end", alone.folder / f"{way}-alone")
    )
    assert {name: (t.dtype, t.shape) for name, t in ours.items()} == {n: (t.dtype, t.shape) for n, t in theirs.items()}
    for name, weight in theirs.items():
        assert float((ours[name] - weight).norm() / weight.norm()) < 100 * close(way), name
    assert found[way]["drawn"] == one["drawn"]


@pytest.mark.deepspeed
@pytest.mark.parametrize(("layout", "way"), EACH)
def test_checkpoints_go_on_in_any_layout(alone: Any, ranks: Any, layout: str, way: str) -> None:
    folder, found = ranks(layout)
    rest = found[way]["rows"][SAVED_AT:]
    assert found[way]["resumed"] == rest and found[way]["equal"]  # to the last bit
    near = [pytest.approx(row, rel=10 * close(way)) for row in rest]
    assert found[way]["from_one"] == near
    assert found[way]["without"] == near  # under FSDP alone
    policy = load(alone.folder, way, sharded=False)
    trainer = trainer_of(policy, way, sharded=False)
    assert load_training_state(folder / f"{way}-saved", policy=policy, trainer=trainer).step == SAVED_AT
    assert steps(trainer, SAVED_AT, STEPS) == near
    assert found[way]["size"] == sum(p.numel() for p in policy.module.parameters())


@pytest.mark.deepspeed
@pytest.mark.parametrize(("layout", "way"), [(layout, "copies") for layout in LAYOUTS])
def test_frozen_copies_score_in_parts(alone: Any, ranks: Any, layout: str, way: str) -> None:
    _, found = ranks(layout)
    one, copies = alone("qwen3"), found[way]
    for kind in ("copy", "start"):
        for name, values in one["scores"].items():
            assert copies[kind][name] == pytest.approx(values, rel=1e-12, abs=1e-12), (kind, name)
    weights = dict(load(alone.folder, "qwen3", sharded=False).module.named_parameters())
    assert copies["whole"] == pytest.approx({name: float(p.double().sum()) for name, p in weights.items()}, rel=1e-9)


@pytest.mark.deepspeed
@pytest.mark.parametrize(("layout", "way"), [(layout, way) for layout in LAYOUTS for way in ("rl", "rl-layers")])
def test_reinforcement_learning_takes_the_steps_of_one(ranks: Any, layout: str, way: str) -> None:
    """With whole copies of the parts and a frozen reference, and layer by layer with one that follows."""
    from tests.modeling.training.fsdp_script import MOVING, rl

    folder, found = ranks(layout)
    rows = rl(folder, None, f"{way}-alone", **(MOVING if way == "rl-layers" else {}))
    got = found[way]["rows"] if way == "rl-layers" else found[way]
    for name in ("reward_mean", "grad_norm", "start_kl", "reference_kl_k1", "entropy", "length_mean"):
        values = [row[name] for row in rows if name in row]
        assert [row[name] for row in got if name in row] == pytest.approx(values, rel=1e-3, abs=1e-6), name
    if way == "rl-layers":
        assert found[way]["resumed"] == got[1:]
    data_ranks = LAYOUTS[layout][0] // LAYOUTS[layout][1]
    ends = folder / f"{way}-alone-1", folder / f"{way}-{data_ranks}"
    mine, ours = (load_file(path / "model.safetensors") for path in ends)
    assert max(float((mine[name] - ours[name]).abs().max()) for name in mine) < 2e-5
