"""FSDP2 on two and four processes takes the steps that one process of plain torch takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from components.contract.errors import InputError
from components.modeling.generation.sampler import NativeSampler
from components.modeling.loading.load import load_policy
from components.modeling.native.decoder import Decoder
from components.modeling.native.native_policy import NativePolicy
from components.modeling.packing.packed import Packed
from components.modeling.training.build import build_trainer
from components.modeling.training.training_state import load_training_state
from tests.modeling.decoder_models import NATIVE, build
from tests.modeling.training.fsdp_script import MOVING, OF_FOUR, PPO, WAYS, config_of, load, rl, save_task_model
from tests.modeling.training.ranks_script import SAVED_AT, STEPS, parts, sampled, steps

ROOT = Path(__file__).parents[3]
WEIGHT = 2e-5
"""How far float32 weights may be apart after six steps of size 0.01: gradients are summed in another order."""
EACH = [(2, way) for way in WAYS] + [(4, way) for way in WAYS if way in OF_FOUR]


def close(way: str) -> float:
    """Return how far losses and norms may be apart, relative to their size: bfloat16 has 8 bits."""
    return 2e-2 if way.endswith("bfloat16") else 2e-4


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Return, for each number of ranks, where they have written their results, models and checkpoints."""
    found = {world: tmp_path_factory.mktemp(f"ranks-{world}") for world in (2, 4)}
    model = build("llama")
    for world, path in found.items():
        model.save_pretrained(path / "model")
        save_task_model(path / "task")
        script = Path(__file__).with_name("fsdp_script.py")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        earlier = [] if world == 2 else [str(found[2])]
        ranks = [
            subprocess.Popen(
                [sys.executable, str(script), str(path), str(rank), str(world), *earlier],
                env=environment,
                stderr=(path / f"errors-{rank}").open("w"),
            )
            for rank in range(world)
        ]
        codes = [rank.wait(timeout=500) for rank in ranks]
        assert codes == [0] * world, "\n".join((path / f"errors-{r}").read_text()[-1500:] for r in range(world))
    return found


def found(folders: dict[int, Path], world: int) -> dict[str, Any]:
    return json.loads((folders[world] / "found.json").read_text())


@pytest.fixture(scope="module")
def alone(folders: dict[int, Path]) -> dict[str, list[list[float]]]:
    """Return the steps of plain torch in each way; the trained models are beside those of the ranks."""
    rows = {}
    for way in WAYS:
        trainer = build_trainer(load(folders[2], way, sharded=False), config_of(way), total_steps=STEPS)
        rows[way] = steps(trainer, 0, STEPS)
        trainer.save(folders[2] / f"{way}-alone")
    return rows


@pytest.mark.deepspeed
@pytest.mark.parametrize(("world", "way"), EACH)
def test_ranks_take_the_steps_of_one(
    folders: dict[int, Path], alone: dict[str, list[list[float]]], world: int, way: str
) -> None:
    assert found(folders, world)[way]["rows"] == [pytest.approx(row, rel=close(way)) for row in alone[way]]
    mine, ours = (
        load_file(path / "model.safetensors") for path in (folders[2] / f"{way}-alone", folders[world] / f"{way}-end")
    )
    assert {name: t.dtype for name, t in mine.items()} == {name: t.dtype for name, t in ours.items()}
    if not way.endswith("bfloat16"):
        assert max(float((mine[name] - ours[name]).abs().max()) for name in mine) < WEIGHT


@pytest.mark.deepspeed
@pytest.mark.parametrize(("world", "way"), EACH)
def test_a_resumed_training_is_the_same_to_the_last_bit(folders: dict[int, Path], world: int, way: str) -> None:
    result = found(folders, world)[way]
    assert result["resumed"] == result["rows"][SAVED_AT:]
    assert result["equal"]


@pytest.mark.deepspeed
@pytest.mark.parametrize(("world", "way"), EACH)
def test_what_ranks_saved_goes_on_in_one_process(folders: dict[int, Path], world: int, way: str) -> None:
    other = load(folders[world], way, sharded=False)
    trainer = build_trainer(other, config_of(way), total_steps=STEPS)
    assert load_training_state(folders[world] / way, policy=other, trainer=trainer).step == SAVED_AT
    rest = found(folders, world)[way]["rows"][SAVED_AT:]
    assert steps(trainer, SAVED_AT, STEPS) == [pytest.approx(row, rel=close(way)) for row in rest]


@pytest.mark.deepspeed
@pytest.mark.parametrize(("world", "way"), EACH)
def test_no_rank_holds_a_whole_model(folders: dict[int, Path], world: int, way: str) -> None:
    result = found(folders, world)[way]
    assert sum(result["held"]) == result["size"]
    assert max(result["held"]) <= 1.2 * result["size"] / world
    if way == "qlora":  # the codes and scales, too
        packed = load(folders[world], way, sharded=False).module.buffers()
        assert sum(result["codes"]) == sum(buffer.numel() for buffer in packed) > 0
        assert max(result["codes"]) <= 1.4 * sum(result["codes"]) / world  # a few rows of scales of so small a model
    assert sum(result["kept"]) == result["trained"]  # each rank stores its own part
    assert max(result["kept"]) <= 1.5 * result["trained"] / world
    assert result["low"] == way.endswith("bfloat16")


def stored(folder: Path) -> int:
    """Return the bytes of the tensors of all ranks' parts."""
    files = [*folder.glob("weights-*.safetensors"), *folder.glob("optimizer-*.safetensors")]
    return sum(tensor.nbytes for file in files for tensor in load_file(file).values())


@pytest.mark.deepspeed
@pytest.mark.parametrize(("world", "way"), EACH)
def test_a_rank_reads_its_own_part_of_a_checkpoint(folders: dict[int, Path], world: int, way: str) -> None:
    read, total = found(folders, world)[way]["read"], stored(folders[world] / way)
    assert sum(read) == total
    assert max(read) < 1.5 * total / world


@pytest.mark.deepspeed
def test_four_ranks_go_on_from_what_two_saved(folders: dict[int, Path], alone: dict[str, list[list[float]]]) -> None:
    got, total = found(folders, 4)["other-size"], stored(folders[2] / "native")
    assert got["rows"] == [pytest.approx(row, rel=close("native")) for row in alone["native"][SAVED_AT:]]
    assert got["opened"] == [[0], [0], [1], [1]]
    assert total <= sum(got["read"]) < 1.1 * total  # counts of updates are read by each
    assert max(got["read"]) < 1.5 * total / 4


@pytest.mark.deepspeed
def test_a_layers_weights_are_whole_only_while_it_runs(folders: dict[int, Path]) -> None:
    assert found(folders, 2)["live"] == [0.5] * 4  # one of two layers, in each of two passes


@pytest.mark.deepspeed
@pytest.mark.parametrize("world", [2, 4])
def test_sharded_weights_are_whole_where_they_are_sampled_and_copied(folders: dict[int, Path], world: int) -> None:
    whole, policy = found(folders, world)["whole"], load(folders[2], "native", sharded=False)
    assert whole["drawn"] == whole["copied"] == sampled(NativeSampler(policy))
    with torch.no_grad():
        scores = policy.target_logprobs(Packed.from_sequences(parts()[0])).logprobs
    assert whole["scores"] == pytest.approx(scores.tolist(), abs=1e-5)
    assert whole["evaluated"] == pytest.approx(whole["expected"], abs=1e-6)
    assert whole["cut"] == 2 * 6  # the six parameters of each frozen layer; the tables are whole


@pytest.mark.deepspeed
@pytest.mark.parametrize("world", [2, 4])
def test_reinforcement_learning_takes_the_steps_of_one(folders: dict[int, Path], world: int) -> None:
    rows = rl(folders[world], None)
    got = found(folders, world)["rl"]
    for name in ("reward_mean", "loss", "grad_norm", "start_kl", "entropy", "length_mean"):
        values = [row[name] for row in rows if name in row]
        assert [row[name] for row in got if name in row] == pytest.approx(values, rel=1e-3, abs=1e-6), name
    mine, ours = (load_file(folders[world] / name / "model.safetensors") for name in ("rl-1", f"rl-{world}"))
    assert max(float((mine[name] - ours[name]).abs().max()) for name in mine) < WEIGHT


@pytest.mark.deepspeed
@pytest.mark.parametrize("world", [2, 4])
def test_drawing_and_scoring_by_layers_takes_the_steps_of_one(folders: dict[int, Path], world: int) -> None:
    """With a reference that follows the trained weights; ranks draw different numbers of tokens."""
    rows, got = rl(folders[world], None, "rl-moving", **MOVING), found(folders, world)["rl-layers"]
    assert rows[-1]["grad_norm"] > 0.1 and abs(rows[-1]["reference_kl_k1"]) > 1e-4
    for name in ("reward_mean", "grad_norm", "start_kl_k1", "reference_kl_k1", "entropy", "length_mean"):
        assert [row[name] for row in got["rows"]] == pytest.approx([row[name] for row in rows], rel=1e-3, abs=1e-6), (
            name
        )
    assert got["live"] == 0.5  # one layer of two
    assert got["resumed"] == got["rows"][1:]
    mine, ours = (
        load_file(folders[world] / name / "model.safetensors") for name in ("rl-moving-1", f"rl-layers-{world}")
    )
    assert max(float((mine[name] - ours[name]).abs().max()) for name in mine) < WEIGHT


@pytest.mark.deepspeed
@pytest.mark.parametrize(("world", "way"), [(2, way) for way in PPO] + [(4, "ppo")])
def test_a_sharded_value_model_takes_the_steps_of_one(folders: dict[int, Path], world: int, way: str) -> None:
    rows, got = rl(folders[world], None, f"{way}-alone", **PPO[way][1]), found(folders, world)[way]
    assert rows[-1]["critic_loss"] > 0.0 and abs(rows[-1]["critic_explained"]) > 1e-3  # its values count by then
    for name in ("reward_mean", "grad_norm", "critic_loss", "critic_grad_norm", "critic_explained", "entropy"):
        values = [row[name] for row in rows]
        assert [row[name] for row in got["rows"]] == pytest.approx(values, rel=2e-3, abs=1e-5), name
    assert got["resumed"] == got["rows"][1:]
    assert got["held"] < 1.3 / world
    mine, ours = (load_file(folders[world] / at / "model.safetensors") for at in (f"{way}-alone-1", f"{way}-{world}"))
    assert max(float((mine[name] - ours[name]).abs().max()) for name in mine) < WEIGHT


@pytest.mark.parametrize("kind", NATIVE)
def test_a_model_read_layer_by_layer_is_the_model(tmp_path: Path, kind: str) -> None:
    build(kind).save_pretrained(tmp_path, max_shard_size="10KB")
    policy, whole = load_policy(tmp_path, sharded=True), load_policy(tmp_path)
    assert {p.device.type for p in policy.module.parameters()} == {"meta"}
    for part in (*policy.layers(), policy.module):
        policy.materialize(part)
    assert isinstance(whole, NativePolicy) and isinstance(policy.module, Decoder)
    expected = whole.module.state_dict()
    assert set(policy.module.state_dict()) == set(expected)
    for name, weight in policy.module.state_dict().items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=0)


def test_a_folder_that_lacks_a_layer_is_refused(tmp_path: Path) -> None:
    model = build("llama")
    kept = {name: t for name, t in model.state_dict().items() if "layers.1.mlp" not in name}
    model.save_pretrained(tmp_path, state_dict=kept)
    policy = load_policy(tmp_path, sharded=True)
    with pytest.raises(InputError, match=r"layer 1: weights do not fit its config \(missing: \['model.layers.0.mlp"):
        policy.materialize(policy.layers()[1])
