"""Reward models: their folders as transformers reads them, and shared beginnings that are computed once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

from components.contract.errors import InputError
from components.contract.heads import Head, head_of
from components.modeling.loading.load import load_policy
from components.modeling.models.folder import read_config
from components.modeling.scorers.folder import classifier
from components.modeling.scorers.layout import Layout, layout_of
from components.modeling.scorers.load import load_network
from components.modeling.scorers.network import Reading, RewardNetwork, packed_readings
from components.modeling.scorers.reading import last_place, steps_of
from components.modeling.training.optimizer import build_optimizer, is_for_muon
from components.modeling.training.training_config import OptimizerConfig
from tests.modeling.decoder_models import VOCAB
from tests.modeling.decoder_models import save as save_checkpoint
from tests.stages.supervised_data import base_model

FAMILIES = ["llama", "llama-gqa", "qwen2", "qwen3", "gemma2", "mistral-window", "phi3", "gpt2", "mixtral"]
ROWS = [[5, 6, 7, 8], [9, 4], [10, 11, 12, 3]]
STEPS = Layout(Head.STEPS, 2, "probability", "\n")


def made(folder: Path, family: str, layout: Layout) -> RewardNetwork:
    save_checkpoint(family, folder / "policy")
    network = RewardNetwork(load_policy(folder / "policy"), layout, seed=1)
    with torch.no_grad():
        network.head.weight.mul_(20)  # differences of scores well above rounding
    network.policy.save(folder / "scorer")
    return network


def outputs(network: RewardNetwork, rows: list[list[int]], places: list[list[int]]) -> Tensor:
    readings = [[Reading(row, found)] for row, found in zip(rows, places, strict=True)]
    with torch.no_grad():
        return network.outputs(packed_readings(readings, "cpu"))


def padded(rows: list[list[int]]) -> dict[str, Tensor]:
    width = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return {"input_ids": tokens, "attention_mask": mask}


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_loads_the_folder_and_scores_equally(family: str, tmp_path: Path) -> None:
    network = made(tmp_path, family, Layout())
    model, told = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "scorer", output_loading_info=True, dtype=torch.float32
    )
    assert not told["missing_keys"] and not told["unexpected_keys"] and not told["mismatched_keys"]
    assert model.config.num_labels == 1
    with torch.no_grad():
        theirs = model.eval()(**padded(ROWS)).logits
    ours = outputs(network, ROWS, [[last_place(row, 0)] for row in ROWS])
    assert theirs.std() > 0.01
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma2"])
def test_steps_are_token_classification(family: str, tmp_path: Path) -> None:
    network = made(tmp_path, family, STEPS)
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "scorer", dtype=torch.float32)
    with torch.no_grad():
        theirs = model.eval()(**padded(ROWS)).logits  # dropout 0 in its config
        again = model.train()(**padded(ROWS)).logits
    ours = outputs(network, ROWS, [[1, 3], [0, 1], [2]])
    expected = torch.stack([theirs[0, 1], theirs[0, 3], theirs[1, 0], theirs[1, 1], theirs[2, 2]])
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(theirs, again)


def with_tokenizer(folder: Path, layout: Layout) -> RewardNetwork:
    network = RewardNetwork(load_policy(base_model(folder / "policy")), layout, seed=2)
    network.policy.save(folder / "scorer")
    return network


@pytest.mark.parametrize("layout", [Layout(), STEPS, Layout(outputs=6, reward="mean_of_gaussians")])
def test_a_saved_model_is_loaded_with_the_same_scores(layout: Layout, tmp_path: Path) -> None:
    network = with_tokenizer(tmp_path, layout)
    again = load_network(tmp_path / "scorer", "scorer", device="cpu", dtype="float32")
    assert again.layout == layout
    places = [[1, 2], [1], [0]]
    assert torch.equal(outputs(network, ROWS, places), outputs(again, ROWS, places))
    again.policy.save(tmp_path / "again")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "scorer" / name).read_bytes()


def test_a_classifier_of_transformers_on_another_decoder_is_loaded(tmp_path: Path) -> None:
    with_tokenizer(tmp_path, Layout())
    made(tmp_path / "other", "gpt2", Layout())
    for file in (tmp_path / "scorer").glob("*token*"):
        (tmp_path / "other" / "scorer" / file.name).write_bytes(file.read_bytes())
    network = load_network(tmp_path / "other" / "scorer", "scorer", device="cpu", dtype="float32")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "other" / "scorer", dtype=torch.float32)
    with torch.no_grad():
        theirs = model.eval()(**padded(ROWS)).logits
    torch.testing.assert_close(outputs(network, ROWS, [[3], [1], [3]]), theirs, atol=1e-5, rtol=1e-5)


def test_muon_leaves_the_head_to_adamw(tmp_path: Path) -> None:
    policy = load_policy(base_model(tmp_path / "policy"))
    network = RewardNetwork(policy, STEPS)
    config = OptimizerConfig(name="muon", peak_learning_rate=0.01, clip_norm=None)
    assert not is_for_muon("score.weight", network.head.weight, config)
    inner = next(p for name, p in policy.trainable() if is_for_muon(name, p, config))
    trained = build_optimizer(policy.module, config, total_steps=1, row_blocks=policy.row_blocks())
    before = {parameter: parameter.detach().clone() for parameter in (network.head.weight, inner)}
    for _, parameter in policy.trainable():
        parameter.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    signs = {parameter: parameter.grad.sign() for parameter in before}  # type: ignore[union-attr]
    trained.step(0)
    moved = {parameter: (was - parameter.detach()) / 0.01 for parameter, was in before.items()}
    torch.testing.assert_close(moved[network.head.weight], signs[network.head.weight], atol=1e-3, rtol=0)
    assert not torch.allclose(moved[inner], signs[inner], atol=0.1), "AdamW's first step is the sign, Muon's is not"


def test_shards_keep_their_index(tmp_path: Path) -> None:
    network = RewardNetwork(load_policy(base_model(tmp_path / "policy")), Layout(), seed=2)
    folder = tmp_path / "scorer"
    network.policy.finishing = None
    network.policy.save(folder)
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    parts = {"model-00001.safetensors": names[:3], "model-00002.safetensors": names[3:]}
    for file, inside in parts.items():
        save_file({name: weights[name] for name in inside}, folder / file, {"format": "pt"})
    (folder / "model.safetensors").unlink()
    places = {name: file for file, inside in parts.items() for name in inside}
    size = sum(weight.nbytes for weight in weights.values())
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": size}, "weight_map": places})
    )
    network._finish(folder)
    content = json.loads((folder / "model.safetensors.index.json").read_text())
    assert content["weight_map"]["score.weight"] in parts
    assert content["metadata"]["total_size"] == size + network.head.weight.nbytes
    again = load_network(folder, "scorer", device="cpu", dtype="float32")
    assert torch.equal(outputs(network, ROWS, [[1], [1], [0]]), outputs(again, ROWS, [[1], [1], [0]]))


rows = st.lists(st.integers(1, VOCAB - 1), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> RewardNetwork:
    return made(tmp_path_factory.mktemp("llama"), "llama", Layout())


@settings(deadline=None, max_examples=40)
@given(prompt=rows, chosen=rows, rejected=rows, other=rows)
def test_a_shared_beginning_changes_no_score(
    llama: RewardNetwork, prompt: list[int], chosen: list[int], rejected: list[int], other: list[int]
) -> None:
    texts = [[*prompt, *chosen], [*prompt, *rejected], other, [*other, 7]]
    places = [[len(text) - 1] for text in texts]
    apart = outputs(llama, texts, places)
    readings = [Reading(text, place) for text, place in zip(texts, places, strict=True)]
    with torch.no_grad():
        together = llama.outputs(packed_readings([readings[:2], readings[2:]], "cpu"))
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=1e-5)


def test_the_last_place_is_the_last_that_is_no_padding() -> None:
    assert last_place([4, 5, 0, 0], 0) == 1
    assert last_place([4, 0, 5], 0) == 2
    assert last_place([0, 0], 0) == 0


def test_steps_of_a_text() -> None:
    assert steps_of("a\nb\n", "\n") == ["a", "b"]
    assert steps_of("a\n\n \nb", "\n") == ["a", "b"]
    assert steps_of("", "\n") == [""]


@pytest.mark.parametrize("text", ["{}", '{"architectures": null}', '{"architectures": ["LlamaForCausalLM", 3]}'])
def test_a_policy_is_no_reward_model(text: str) -> None:
    assert head_of(json.loads(text)) == Head.LANGUAGE


def test_models_where_others_are_wanted_are_refused_in_one_line(tmp_path: Path) -> None:
    with_tokenizer(tmp_path, Layout())
    with pytest.raises(InputError, match=r"is a reward model \(LlamaForSequenceClassification\), and a language model"):
        load_policy(tmp_path / "scorer")
    with pytest.raises(InputError, match=r"^s\.model is a language model, and a reward model is wanted"):
        load_network(tmp_path / "policy", "s.model", device="cpu", dtype="float32")
    config = read_config(tmp_path / "scorer")
    del config["posttrain_reward"]
    assert layout_of(config, "x") == Layout()
    with pytest.raises(InputError, match=r"x gives 3 numbers for a text, and nothing says which"):
        layout_of({**config, "id2label": {"0": "a", "1": "b", "2": "c"}}, "x")
    with pytest.raises(InputError, match=r"transformers has no sequence classification for models of type 'mamba'"):
        classifier({"model_type": "mamba"}, Head.SCORE)


def test_a_folder_without_head_or_tokenizer_is_refused(tmp_path: Path) -> None:
    with_tokenizer(tmp_path, Layout())
    folder = tmp_path / "scorer"
    weights = load_file(folder / "model.safetensors")
    head = weights.pop("score.weight")
    save_file(
        {"classifier.weight": head.clone(), **{n: w.clone() for n, w in weights.items()}}, folder / "model.safetensors"
    )
    with pytest.raises(InputError, match=r"s has no weights score\.weight: only linear heads of that name are known"):
        load_network(folder, "s", device="cpu", dtype="float32")
    save_file(
        {"score.weight": head[:, :4].clone(), **{n: w.clone() for n, w in weights.items()}},
        folder / "model.safetensors",
    )
    with pytest.raises(InputError, match=r"s: score\.weight is \(1, 4\), its config says \(1, 16\)"):
        load_network(folder, "s", device="cpu", dtype="float32")
    for file in folder.glob("*token*"):
        file.unlink()
    with pytest.raises(InputError, match="s has no tokenizer"):
        load_network(folder, "s", device="cpu", dtype="float32")
