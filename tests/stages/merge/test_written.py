"""What the merge stage writes: files, shards, types, tied weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from components.merge.writing import Planned, ShardWriter
from components.modeling.loading.load import load_policy
from tests.stages.merge.folders import SHAPES, folder_of, merge, read_model, write_model
from tests.stages.toy_models import toy_models


def test_a_merged_model_loads_in_transformers_and_here_with_equal_weights(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    toys = toy_models()
    done = merge(tmp_path, [toys.both, toys.forgetful], toys.fresh, merger="task_arithmetic")
    model = done.outputs["model"]
    weights, told = AutoModelForCausalLM.from_pretrained(model, output_loading_info=True)
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
    assert set(read_model(found)) == set(names)
    assert not list(found.glob(".*.part"))
    alone = merge(tmp_path / "alone", [second, first], merger="linear").outputs["model"]
    assert not (alone / "model.safetensors.index.json").exists()


def test_a_merged_folder_holds_no_weights_of_the_first_model_and_names_no_adapter(tmp_path: Path) -> None:
    models = [folder_of(tmp_path, name, seed) for name, seed in (("a", 1), ("b", 2))]
    left_out = (
        "model-Q4_K_M.gguf",
        "tf_model.h5",
        "tf_model.h5.index.json",
        "flax_model.msgpack",
        "onnx/model.onnx",
        "onnx/model.onnx_data",
        "pytorch_model-00001-of-00002.bin",
        "pytorch_model.bin.index.json",
        "model.safetensors.index.json.bin",
        "original/consolidated.00.pth",
        "MODEL.GGUF",
        "rust_model.ot",
        "adapter_config.json",
        "adapter_model.safetensors",
        "modeling_mine.py",
        "README.md",
    )
    kept = (
        "generation_config.json",
        "chat_template.jinja",
        "tokenizer.model",
        "vocab.json",
        "merges.txt",
        "sub/a.json",
    )
    for name in (*left_out, *kept):
        (models[0] / name).parent.mkdir(exist_ok=True)
        (models[0] / name).write_text("{}")
    found = merge(tmp_path / "merge", models, merger="linear").outputs["model"]
    files = {str(path.relative_to(found)) for path in found.rglob("*") if path.is_file()}
    assert files == {*kept, "config.json", "tokenizer.json", "model.safetensors"}


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


def test_a_head_that_differs_under_the_tie_flag_is_merged(tmp_path: Path) -> None:
    embedding, config = torch.ones(3, 4), {"tie_word_embeddings": True}
    first, second = (
        write_model(
            tmp_path / str(times),
            {"model.embed_tokens.weight": embedding, "lm_head.weight": times * embedding},
            config=config,
        )
        for times in (3, 5)
    )
    found = read_model(merge(tmp_path / "merge", [first, second], merger="linear").outputs["model"])
    assert float(found["lm_head.weight"][0, 0]) == 4.0 and float(found["model.embed_tokens.weight"][0, 0]) == 1.0


def test_a_full_disk_is_told_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / ".model.safetensors.part").symlink_to("/dev/full")
    planned = Planned("a", "F32", (1 << 20,))
    with (
        pytest.raises(OSError, match="No space left"),
        ShardWriter(tmp_path / "model.safetensors", [planned]) as writer,
    ):
        writer.write(planned, torch.ones(1 << 20))
    assert list(tmp_path.iterdir()) == []
