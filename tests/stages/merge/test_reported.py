"""What the merge stage reports, its sweeps, and how it ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from components.contract.artifacts import ArtifactType
from components.merge.component import COMPONENT
from components.merge.moves import kind_of
from components.select.component import COMPONENT as SELECT
from tests.stages.merge.folders import folder_of, merge, read_model, write_model
from tests.stages.toy_models import prompt_rows, toy_models
from tests.support.stage_context import run_stage, write_jsonl


def test_the_report_says_how_far_weights_moved(tmp_path: Path) -> None:
    """By hand: of norm 2, moved by (1, 0) and (-1, 1) in one layer and by nothing in the other."""
    rest = {"model.layers.1.mlp.up.weight": torch.ones(1, 4)}
    base = write_model(tmp_path / "base", {"model.layers.0.mlp.up.weight": torch.tensor([[2.0, 0.0]]), **rest})
    first = write_model(tmp_path / "a", {"model.layers.0.mlp.up.weight": torch.tensor([[3.0, 0.0]]), **rest})
    second = write_model(tmp_path / "b", {"model.layers.0.mlp.up.weight": torch.tensor([[1.0, 1.0]]), **rest})
    done = merge(tmp_path / "merge", [first, second], base, merger={"name": "task_arithmetic", "scale": 0.5})
    report = json.loads((done.outputs["report"] / "weight_update.json").read_text())
    a, b = report["models"]
    rows = {row["part"]: row for row in report["rows"]}
    assert list(rows) == ["all tensors", "layer 0", "layer 1", "mlp.up"]
    assert rows["layer 0"]["moved"] == pytest.approx({a: 0.5, b: 2**0.5 / 2, "merged": 0.25})
    assert rows["layer 0"]["cosine"] == pytest.approx({f"{a} and {b}": -1 / 2**0.5})
    assert rows["layer 0"]["sign_conflicts"] == 1.0 and "sign_conflicts" not in rows["layer 1"]
    assert rows["layer 1"]["moved"] == {a: 0.0, b: 0.0, "merged": 0.0} and rows["layer 1"]["cosine"] == {}
    assert rows["all tensors"]["moved"]["merged"] == pytest.approx(0.5 / 8**0.5)
    assert done.metrics["moved"] == rows["all tensors"]["moved"]["merged"]
    assert done.metrics["sign_conflicts"] == 1.0 and done.metrics["cosine"] == pytest.approx(-1 / 2**0.5)
    assert [row["tensor"] for row in report["tensors"]] == sorted(read_model(base))


def test_kinds_of_tensors() -> None:
    assert kind_of("model.layers.11.self_attn.q_proj.weight") == "self_attn.q_proj"
    assert kind_of("model.layers.0.self_attn.q_proj.bias") == "self_attn.q_proj.bias"
    assert kind_of("transformer.h.3.mlp.c_fc.weight") == "mlp.c_fc"
    assert kind_of("model.embed_tokens.weight") == "embed_tokens" and kind_of("lm_head.weight") == "lm_head"
    assert kind_of("model.layers.2.mlp.experts.7.up.weight") == kind_of("model.layers.2.mlp.experts.8.up.weight")


def test_a_sweep_makes_checkpoints_of_which_select_takes_one(tmp_path: Path) -> None:
    """Of the way from a model that has forgotten to flip to one that can, the first that can is taken."""
    toys = toy_models()
    merger = {"name": "linear", "weights": [1.0, 0.0]}
    weights = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    done = merge(tmp_path / "merge", [toys.forgetful, toys.both], merger=merger, sweep={"weights": weights})
    assert done.metrics["num_candidates"] == 3 and "model" not in done.outputs
    shelf = done.outputs["checkpoints"]
    index = json.loads((shelf / "index.json").read_text())
    assert [entry["path"] for entry in index] == ["weights=1.0_0.0", "weights=0.5_0.5", "weights=0.0_1.0"]
    ends = [read_model(shelf / index[place]["path"]) for place in (0, 2)]
    for name, one in read_model(toys.forgetful).items():
        assert torch.equal(ends[0][name], one) and torch.equal(ends[1][name], read_model(toys.both)[name])
    chosen = run_stage(
        SELECT,
        tmp_path / "select",
        params={
            "num_samples": 4,
            "max_new_tokens": 5,
            "bootstrap_samples": 200,
            "metrics": ["response_tokens"],
            "objective": {"metric": "response_tokens", "domain": "flip", "minimise": True},
            "constraints": [{"metric": "pass_at_1", "domain": "flip", "min_value": 0.9}],
        },
        inputs={"checkpoints": shelf, "dataset": write_jsonl(tmp_path / "dev", prompt_rows("copy", "flip"))},
    )
    report = json.loads((chosen.outputs["report"] / "selection.json").read_text())
    assert next(row["status"] for row in report["candidates"]) == "rejected"
    assert chosen.metrics["pass_at_1_flip"] >= 0.9 and chosen.metrics["objective"] == pytest.approx(3.0, abs=0.2)


def test_combinations_that_cannot_name_a_folder_are_numbered(tmp_path: Path) -> None:
    model = folder_of(tmp_path, "a", 1)
    sweep = {"t": [0.25], "by_tensor": [{"*": 0.5}, {"norm": 1.0}]}
    done = merge(tmp_path / "merge", [model, model], merger="slerp", sweep=sweep)
    index = json.loads((done.outputs["checkpoints"] / "index.json").read_text())
    assert [entry["path"] for entry in index] == ["candidate-001", "candidate-002"]


def test_outputs_follow_the_sweep() -> None:
    plain, swept = ({"merger": "linear"}, {"merger": "slerp", "sweep": {"t": [0.5]}})
    ports = [set(COMPONENT.formed(COMPONENT.params.model_validate(params)).outputs) for params in (plain, swept)]
    assert ports == [{"model", "report"}, {"checkpoints", "report"}]
    assert COMPONENT.outputs["checkpoints"].type is ArtifactType.CHECKPOINTS


def test_a_merge_that_was_interrupted_starts_again_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [folder_of(tmp_path, "a", 1), folder_of(tmp_path, "b", 2)]
    base, merger = folder_of(tmp_path, "base", 3), {"name": "dare", "drop": 0.5}
    whole = merge(tmp_path / "whole", models, base, merger=merger)
    from components.merge.writing import ShardWriter

    write = ShardWriter.write
    calls = []

    def stops(self: ShardWriter, *rest: Any) -> None:
        calls.append(rest)
        if len(calls) == 2:
            raise KeyboardInterrupt
        write(self, *rest)

    monkeypatch.setattr(ShardWriter, "write", stops)
    with pytest.raises(KeyboardInterrupt):
        merge(tmp_path / "cut", models, base, merger=merger)
    assert not list((tmp_path / "cut").rglob("*.safetensors*"))
    monkeypatch.undo()
    again = merge(tmp_path / "cut", models, base, merger=merger)
    assert again.digests == whole.digests
    shutil.rmtree(tmp_path / "cut")
