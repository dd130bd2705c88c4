"""The card's metadata is what the hub reads, and hostile names are text in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError
from components.runtime.store import Store, open_store
from pipelines.models.card import model_card, plain
from pipelines.models.evaluations import Measured
from pipelines.models.export import export_model
from pipelines.models.find import find_model
from pipelines.models.origin import Origin, _hub_datasets, _hub_name
from pipelines.provenance.terms import stated_license
from tests.modeling.chat_models import LAYOUTS, save_model

HOSTILE = "x | <script>alert(1)</script> [a](http://b) `c`\n---\nlicense: mit\x1b[0m\u202e"


def measured(place: str, low: float | None = 0.25) -> Measured:
    return Measured(
        "eval", "pass@1", f"pass_at_1_{place}", place, 0.5, low, low and 0.75, 40, "prompts", True, "ab" * 32
    )


def test_metadata_is_read_back(tmp_path: Path) -> None:
    origin = Origin(
        stages=(
            {
                "stage": "rl",
                "component": "rl",
                "run_id": "r-1",
                "fingerprint": "f" * 64,
                "seed": 7,
                "params": {"method": "dapo"},
            },
        ),
        base="Qwen/Qwen2.5-1.5B",
        base_digest="cd" * 32,
        base_license="apache-2.0",
        datasets=("openai/gsm8k",),
        run={"recipe": "mine", "summary": "Reads /home/me/secret/rows.jsonl and ~/x/y.txt", "recipe_digest": "ef" * 32},
        run_id="r-1",
    )
    (tmp_path / "README.md").write_text(model_card("mine", origin, [measured("sums")], digest="12" * 32))
    card = ModelCard.load(tmp_path / "README.md")
    assert (card.data.base_model, card.data.license, card.data.datasets) == (
        "Qwen/Qwen2.5-1.5B",
        "apache-2.0",
        ["openai/gsm8k"],
    )
    assert card.data.to_dict()["base_model_relation"] == "finetune"
    assert card.data.tags == ["posttrain", "rl", "dapo"]
    (result,) = card.data.eval_results
    assert (result.metric_type, result.metric_value, result.dataset_name) == ("pass_at_1", 0.5, "sums")
    assert result.metric_args == {"interval": [0.25, 0.75], "confidence": 0.95, "num_prompts": 40}
    assert "| sums | pass@1 | 50.0 % | 25.0 to 75.0, n = 40 | eval |" in card.text
    assert "/home" not in card.text and "secret/" not in card.text and "rows.jsonl" in card.text
    assert "ef" * 32 in card.text and "12" * 32 in card.text


def test_hostile_names_are_text(tmp_path: Path) -> None:
    origin = Origin(run={"recipe": HOSTILE, "summary": HOSTILE})
    text = model_card(HOSTILE, origin, [measured(HOSTILE), measured("b", None)], digest=None)
    (tmp_path / "README.md").write_text(text)
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.license is None
    assert len(card.data.eval_results) == 2
    assert "<script>" not in card.text.replace("\\<", "") and "\n---" not in card.text.replace("| --- |", "")
    assert all(char.isprintable() or char == "\n" for char in text)
    assert plain("a|b\n<c>") == "a\\|b \\<c\\>"


def test_names_on_the_hub_are_told_from_paths() -> None:
    sources = {
        "sources": [
            {"source": {"name": "hf", "dataset": "openai/gsm8k"}},
            {"source": {"name": "hf", "dataset": "/home/me/data"}},
        ]
    }
    assert list(_hub_datasets(sources)) == ["openai/gsm8k"]
    assert _hub_name("hf:Qwen/Qwen2.5-1.5B") == _hub_name("hf://Qwen/Qwen2.5-1.5B") == "Qwen/Qwen2.5-1.5B"
    assert _hub_name("/models/Qwen") is None and _hub_name("s3://Qwen/x") is None


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def test_the_license_of_a_base_is_read_from_its_own_card(store: Store, tmp_path: Path) -> None:
    for number, (name, text) in enumerate(
        {"README.md": "---\nlicense: llama3\n---\n# x", "config.json": '{"license": "mit"}', "x.txt": ""}.items()
    ):
        folder = tmp_path / f"base-{number}"
        folder.mkdir()
        (folder / name).write_text(text)
        assert stated_license(store, store.commit(ArtifactType.MODEL, folder).digest) == ("llama3", "mit", None)[number]


def test_an_export_lists_the_ends_that_the_base_leaves_out(store: Store, tmp_path: Path) -> None:
    tokenizer = save_model(LAYOUTS["qwen2.5-base"], tmp_path / "base")
    (tmp_path / "base" / "evil.bin").write_bytes(b"pickle")
    target = tmp_path / "out"
    target.mkdir()
    export_model(store, find_model(store, str(tmp_path / "base")), target)
    ends = json.loads((target / "generation_config.json").read_text())["eos_token_id"]
    assert set(tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])) <= set(ends)
    assert not (target / "evil.bin").exists() and ModelCard.load(target / "README.md").data.base_model is None


def test_what_is_in_the_way_is_left_alone(store: Store, tmp_path: Path) -> None:
    save_model(LAYOUTS["qwen2.5-base"], tmp_path / "base")
    model = find_model(store, str(tmp_path / "base"))
    file = tmp_path / "file"
    file.write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "base")
    for place, reason in (
        ("file", "is no folder"),
        ("base", "is not empty"),
        ("link", "is no folder"),
        ("file/x", "File exists"),
    ):
        with pytest.raises(InputError, match=reason):
            export_model(store, model, tmp_path / place)
    assert file.read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} - {"store"} == {"base", "file", "link"}
