"""The merge stage around its mergers: what it writes, what it refuses, what it reports, and how it ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.merge.component import COMPONENT, refuses_models
from components.merge.headers import read_headers
from components.merge.moves import kind_of
from components.modeling.loading.load import load_policy
from components.select.component import COMPONENT as SELECT
from tests.stages.merge.folders import merge, read_model, tensors, write_model
from tests.stages.toy_models import prompt_rows, toy_models
from tests.support.stage_context import run_stage, write_jsonl

SHAPES: dict[str, tuple[int, ...]] = {"model.embed.weight": (3, 4), "model.layers.0.up.weight": (5, 4), "norm": (4,)}


def folder_of(tmp: Path, name: str, seed: int, **options: Any) -> Path:
    return write_model(tmp / name, tensors(seed, **SHAPES), **options)


# --- what is written --------------------------------------------------------------------------------------------------


def test_a_merged_model_loads_in_transformers_and_here_with_equal_weights(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    toys = toy_models()
    done = merge(tmp_path, [toys.both, toys.forgetful], toys.fresh, merger="task_arithmetic")
    model = done.outputs["model"]
    weights, told = AutoModelForCausalLM.from_pretrained(model, output_loading_info=True), None
    weights, told = weights
    assert not told["missing_keys"] and not told["unexpected_keys"] and not told["mismatched_keys"]
    stored = {name: one for name, one in weights.state_dict().items() if name != "lm_head.weight"}
    theirs = [read_model(one) for one in (toys.both, toys.forgetful, toys.fresh)]
    assert set(stored) == set(theirs[0])
    for name, found in stored.items():
        both, forgetful, fresh = (one[name] for one in theirs)
        torch.testing.assert_close(found, fresh + (both - fresh) + (forgetful - fresh), rtol=1e-6, atol=1e-6)
    assert weights.get_input_embeddings().weight.data_ptr() == weights.get_output_embeddings().weight.data_ptr()
    texts = [AutoTokenizer.from_pretrained(one)("copy ab")["input_ids"] for one in (model, toys.both)]
    assert texts[0] == texts[1]
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (model / name).read_bytes() == (toys.both / name).read_bytes()
    assert load_policy(model).vocab_size == load_policy(toys.both).vocab_size


def test_one_model_alone_gives_its_own_bytes(tmp_path: Path) -> None:
    """The writer gives what safetensors itself writes."""
    both = toy_models().both
    done = merge(tmp_path, [both], merger="linear")
    assert (done.outputs["model"] / "model.safetensors").read_bytes() == (both / "model.safetensors").read_bytes()


def test_types_are_kept_in_the_order_of_safetensors(tmp_path: Path) -> None:
    weights = {
        "z": torch.arange(3.0, dtype=torch.float64),
        "b": torch.ones(5, dtype=torch.bfloat16),
        "a": torch.ones(2, 2, dtype=torch.float16),
        "c": torch.arange(3.0),
        "ids": torch.arange(4),
        "small": torch.arange(3, dtype=torch.int32),
        "short": torch.arange(3, dtype=torch.int16),
        "byte": torch.arange(3, dtype=torch.uint8),
        "signed": torch.arange(3, dtype=torch.int8),
        "mask": torch.tensor([True, False]),
        'ö "quoted"': torch.ones(1),
    }
    model = write_model(tmp_path / "model", weights)
    done = merge(tmp_path / "merge", [model, model], merger="linear")
    assert (done.outputs["model"] / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()


def test_shards_are_those_of_the_first_model_with_an_index(tmp_path: Path) -> None:
    names = sorted(SHAPES)
    shards = {"model-00001-of-00002.safetensors": names[:2], "model-00002-of-00002.safetensors": names[2:]}
    first, second = folder_of(tmp_path, "a", 1, shards=shards), folder_of(tmp_path, "b", 2)
    found = merge(tmp_path / "merge", [first, second], merger="linear").outputs["model"]
    assert sorted(path.name for path in found.glob("*.safetensors")) == sorted(shards)
    index = json.loads((found / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == {name: file for file, names in shards.items() for name in names}
    assert index["metadata"]["total_size"] == 4 * (12 + 20 + 4)
    assert {name: list(load_file(found / file)) for file, name in ((f, f) for f in shards)}
    assert set(read_model(found)) == set(names)
    assert not list(found.glob(".*.part"))
    alone = merge(tmp_path / "alone", [second, first], merger="linear").outputs["model"]
    assert not (alone / "model.safetensors.index.json").exists()


def test_a_precision_that_was_asked_for_is_in_the_config(tmp_path: Path) -> None:
    models = [folder_of(tmp_path, name, seed, config={"torch_dtype": "float32"}) for name, seed in (("a", 1), ("b", 2))]
    found = merge(tmp_path / "merge", models, merger="linear", dtype="bfloat16").outputs["model"]
    assert {one.dtype for one in read_model(found).values()} == {torch.bfloat16}
    assert json.loads((found / "config.json").read_text())["torch_dtype"] == "bfloat16"


def test_low_precision_models_are_merged_in_float32(tmp_path: Path) -> None:
    """Of 1 and 1 + 2^-7, in bfloat16, the sum of 64 task vectors is right only if it is not rounded on the way."""
    base = write_model(tmp_path / "base", {"w": torch.ones(1, dtype=torch.bfloat16)})
    model = write_model(tmp_path / "model", {"w": torch.full((1,), 1 + 2**-7, dtype=torch.bfloat16)})
    merger = {"name": "task_arithmetic", "weights": [0.25] * 64}
    found = read_model(merge(tmp_path / "merge", [model] * 64, base, merger=merger).outputs["model"])
    assert float(found["w"]) == 1.125


def test_a_tied_matrix_that_is_stored_twice_is_kept_once(tmp_path: Path) -> None:
    embedding = torch.ones(3, 4)
    config = {"tie_word_embeddings": True}
    twice = {"model.embed_tokens.weight": embedding, "lm_head.weight": embedding.clone()}
    first = write_model(tmp_path / "a", twice, config=config)
    second = write_model(tmp_path / "b", {"model.embed_tokens.weight": 3 * embedding}, config=config)
    found = read_model(merge(tmp_path / "merge", [first, second], merger="linear").outputs["model"])
    assert set(found) == {"model.embed_tokens.weight"} and float(found["model.embed_tokens.weight"][0, 0]) == 2.0


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"config": {"hidden_size": 8}},
            r'models\[0\] and models\[1\] differ in config.json: "hidden_size" is 4 and 8',
        ),
        ({"config": {"rope_scaling": {"factor": 2.0}}}, '"rope_scaling.factor" is not there and 2.0'),
        ({"vocabulary": {"a": 0, "b": 2, "c": 1}}, r'tokenizers of models\[0\] and models\[1\] differ: "b" is 1 and 2'),
        ({"vocabulary": {"a": 0, "b": 1}}, '"c" is 2 and not there'),
        ({"config": {"quantization_config": {"bits": 4}}}, r"models\[1\] is quantised"),
    ],
)
def test_another_architecture_or_vocabulary_is_refused_with_the_first_difference(
    tmp_path: Path, other: dict[str, Any], message: str
) -> None:
    models = [folder_of(tmp_path, "a", 1), folder_of(tmp_path, "b", 2, **other)]
    with pytest.raises(InputError, match=message) as caught:
        merge(tmp_path / "merge", models, merger="linear")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": torch.ones(5)}, r"norm is \[4\] in models\[0\] and \[5\] in models\[1\]"),
        ({"more": torch.ones(1)}, r"more is in models\[1\] and not in models\[0\]"),
        ({"norm": torch.ones(4, dtype=torch.int64)}, r"norm is F32 in models\[0\] and I64 in models\[1\]"),
    ],
)
def test_other_tensors_are_refused(tmp_path: Path, change: dict[str, torch.Tensor], message: str) -> None:
    models = [folder_of(tmp_path, "a", 1), write_model(tmp_path / "b", {**tensors(2, **SHAPES), **change})]
    with pytest.raises(InputError, match=message):
        merge(tmp_path / "merge", models, merger="linear")


def test_what_says_nothing_of_the_architecture_may_differ(tmp_path: Path) -> None:
    config = {
        "eos_token_id": 7,
        "torch_dtype": "float32",
        "max_position_embeddings": 9,
        "use_sliding_window": False,
        "sliding_window": 5,
        "use_mrope": False,
    }
    models = [
        folder_of(tmp_path, "a", 1, config={"use_sliding_window": False}),
        folder_of(tmp_path, "b", 2, config=config),
    ]
    merge(tmp_path / "merge", models, merger="linear")
    other = folder_of(tmp_path, "c", 2, vocabulary={"a": 0, "b": 1, "d": 2})
    found = merge(tmp_path / "first", [models[0], other], merger="linear", tokenizers="first").outputs["model"]
    assert (found / "tokenizer.json").read_bytes() == (models[0] / "tokenizer.json").read_bytes()


def test_whole_numbers_must_be_equal(tmp_path: Path) -> None:
    first, second = (
        write_model(tmp_path / str(shift), {"w": torch.ones(2), "ids": torch.arange(3) + shift}) for shift in (0, 1)
    )
    kept = read_model(merge(tmp_path / "same", [first, first], merger="linear").outputs["model"])
    assert kept["ids"].tolist() == [0, 1, 2]
    with pytest.raises(InputError, match=r"ids has whole numbers \(I64\) that differ"):
        merge(tmp_path / "merge", [first, second], merger="linear")


def test_a_weight_that_is_no_number_ends_the_stage_and_leaves_no_file(tmp_path: Path) -> None:
    weights = tensors(1, **SHAPES)
    broken = write_model(tmp_path / "broken", {**weights, "norm": torch.tensor([1.0, float("nan"), 0.0, 0.0])})
    with pytest.raises(InputError, match="norm: a merged weight is infinite or no number in F32"):
        merge(tmp_path / "merge", [broken], merger="linear")
    assert not list((tmp_path / "merge").rglob("*.safetensors*"))
    large = write_model(tmp_path / "large", {"w": torch.full((2,), 70_000.0)})
    with pytest.raises(InputError, match="infinite or no number in F16"):
        merge(tmp_path / "float16", [large], merger="linear", dtype="float16")


def _break(folder: Path, how: str) -> None:
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    if how == "cut":
        path.write_bytes(raw[:-1])
    elif how == "long":
        path.write_bytes((1 << 60).to_bytes(8, "little") + raw[8:])
    elif how == "no json":
        path.write_bytes(raw[:8] + b"[" * length + raw[8 + length :])
    elif how == "gone":
        path.rename(folder / "pytorch_model.bin")
    else:
        header["norm"].update(
            {"overlong": {"shape": [1 << 40]}, "negative": {"data_offsets": [-8, 8]}, "odd": {"dtype": "F8_E4M3"}}[how]
        )
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("cut", "does not lie where the header says"),
        ("long", "is no safetensors file"),
        ("no json", "is no safetensors file"),
        ("gone", "weights must be safetensors"),
        ("overlong", "norm does not lie where the header says"),
        ("negative", "norm does not lie where the header says"),
        ("odd", "norm is F8_E4M3, which is not merged"),
    ],
)
def test_broken_and_hostile_files_get_one_line(tmp_path: Path, how: str, message: str) -> None:
    models = [folder_of(tmp_path, "a", 1), folder_of(tmp_path, "b", 2)]
    _break(models[1], how)
    with pytest.raises(InputError, match=message) as caught:
        merge(tmp_path / "merge", models, merger="linear")
    assert "\n" not in str(caught.value)


def test_an_index_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "a", 1, shards={"model-1.safetensors": sorted(SHAPES)})
    save_file({"x": torch.ones(1)}, tmp_path / "outside.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": "../outside.safetensors"}}))
    with pytest.raises(InputError, match="has no ../outside.safetensors"):
        read_headers(folder)


@pytest.mark.parametrize(
    ("merger", "count", "base", "message"),
    [
        ("slerp", 3, False, "merger 'slerp': it merges 2 models, and input 'models' has 3"),
        ("ties", 2, False, "merger 'ties' needs input 'base'"),
        ({"name": "linear", "weights": [1.0]}, 2, False, "weights has 1 numbers, and input 'models' has 2"),
        ({"name": "linear", "by_tensor": {"*.up": [1.0]}}, 2, False, r"\*.up has 1 numbers"),
    ],
)
def test_a_merger_that_does_not_fit_is_told(tmp_path: Path, merger: Any, count: int, base: bool, message: str) -> None:
    models = [folder_of(tmp_path, f"m{number}", number) for number in range(count)]
    with pytest.raises(InputError, match=message):
        merge(tmp_path / "merge", models, merger=merger)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"merger": "linnear"}, "did you mean 'linear'"),
        ({"merger": {"name": "linear", "weights": [1, -1]}}, "weights sum to 0"),
        ({"merger": {"name": "dare", "drop": 1.0}}, "drop"),
        ({"merger": {"name": "ties", "keep": 0}}, "keep"),
        ({"merger": "slerp", "sweep": {"t": [0.5, 2.0]}}, "t: Input should be less than or equal to 1"),
        ({"merger": "slerp", "sweep": {"tt": [0.5]}}, "tt: Extra inputs are not permitted"),
        ({"merger": "slerp", "sweep": {"t": []}}, "sweep.t: no values"),
        ({"merger": "slerp", "sweep": {"t": [0.5, 0.5]}}, "t=0.5 is there twice"),
        ({"merger": "slerp", "sweep": {"t": [x / 100 for x in range(65)]}}, "65 combinations"),
    ],
)
def test_wrong_parameters_get_one_line(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        COMPONENT.params.model_validate(params)


def test_what_is_here_is_compared_before_a_run(tmp_path: Path) -> None:
    first, other = folder_of(tmp_path, "a", 1), folder_of(tmp_path, "b", 2, config={"hidden_size": 8})
    params = COMPONENT.params.model_validate({"merger": "linear"})
    assert list(refuses_models(params, {"models": [first, None]})) == []  # one is made by the run
    (why,) = refuses_models(params, {"models": [first, other]})
    assert '"hidden_size" is 4 and 8' in why
    (why,) = refuses_models(params, {"models": [first], "base": [other]})
    assert "models[0] and base differ" in why
    slerp = COMPONENT.params.model_validate({"merger": "slerp"})
    (why,) = refuses_models(slerp, {"models": [None, None, None]})
    assert "input 'models' has 3" in why


def test_an_operator_that_returns_another_shape_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from components.merge.config import MergerConfig\n"
        "class MineConfig(MergerConfig):\n    pass\n"
        "def linear(stack, *, config: MineConfig):\n    return lambda block: block.models[0][:0]\n"
    )
    import importlib.util

    spec = importlib.util.spec_from_file_location("mine", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from components.merge.run import _merge
    from components.merge.stack import Family

    bound = OperatorSpec(name="linear").resolve("merger")
    broken = type(bound)(bound.slot, "linear", module.linear, bound.config)
    family = Family([read_headers(folder_of(tmp_path, "a", 1))])
    with pytest.raises(Exception, match=r"merger operator 'linear' returned \[0, 4\] for rows of model.embed.weight"):
        _merge(next(family.stacks()), broken, None, None, None, "x")  # type: ignore[arg-type]


# --- reports, sweeps, ends --------------------------------------------------------------------------------------------


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
    assert [row["status"] for row in report["candidates"]][0] == "rejected"
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
