"""Two-turn items through the stages: curate, pretrain, sft, evaluate, difficulty and replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from components.contract.errors import InputError
from components.contract.messages import conversation_of
from components.curate.component import COMPONENT as CURATE
from components.evaluate.component import COMPONENT as EVALUATE
from components.modeling.loading.load import load_policy
from components.modeling.supervised.examples import Example, examples_from_rows
from components.modeling.supervised.loss import accumulate_gradients
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from components.pretrain.component import COMPONENT as PRETRAIN
from components.replay.component import COMPONENT as REPLAY
from components.select.component import COMPONENT as SELECT
from components.sft.component import COMPONENT as SFT
from components.tasks.rows import read_items, read_rows
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

torch.set_num_threads(1)  # equal bytes are promised for one thread

SOURCE = {"name": "running_total", "min_number": 0, "max_number": 3}
TRACE = {"name": "running_total", "think": False}
SAMPLING = {"num_samples": 4, "max_new_tokens": 6, "bootstrap_samples": 200}
OPTIMIZER = {"name": "muon", "peak_learning_rate": 0.02}


def curate(folder: Path, **params: Any) -> Finished:
    inputs = params.pop("inputs", {})
    share = {"source": SOURCE, "domain": "totals"}
    if params.get("kind") in ("demonstrations", "corpus"):
        share["demonstrators"] = [{"demonstrator": TRACE}]
    return run_stage(CURATE, folder, params={"sources": [share], **params}, inputs=inputs)


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return curate(tmp_path_factory.mktemp("demonstrations"), kind="demonstrations", size=40, split=(0.0, 0.7))


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return curate(tmp_path_factory.mktemp("prompts"), size=12, split=(0.7, 1.0))


@pytest.fixture(scope="module")
def base(demonstrations: Finished, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    params = {
        "steps": 2,
        "batch_size": 16,
        "architecture": {"width": 32, "layers": 2, "heads": 2, "mlp_width": 64},
        "tokenizer": {"chat_template": "roles"},
        "optimizer": OPTIMIZER,
    }
    inputs = {"dataset": demonstrations.outputs["dataset"]}
    return run_stage(PRETRAIN, tmp_path_factory.mktemp("base"), params=params, inputs=inputs)


@pytest.fixture(scope="module")
def tuned(base: Finished, demonstrations: Finished, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    inputs = {"model": base.outputs["model"], "dataset": demonstrations.outputs["dataset"]}
    params = {"steps": 80, "batch_size": 24, "epochs": None, "optimizer": OPTIMIZER}
    return run_stage(SFT, tmp_path_factory.mktemp("tuned"), params=params, inputs=inputs)


@pytest.fixture(scope="module")
def evaluated(tuned: Finished, demonstrations: Finished, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    inputs = {"model": tuned.outputs["model"], "dataset": demonstrations.outputs["dataset"]}
    return run_stage(EVALUATE, tmp_path_factory.mktemp("evaluated"), params=SAMPLING, inputs=inputs)


def samples(finished: Finished) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (finished.outputs["metrics"] / "samples.jsonl").read_text().splitlines()]


def test_demonstrations_hold_all_turns(demonstrations: Finished, prompts: Finished) -> None:
    rows = read_rows(demonstrations.outputs["dataset"])
    assert len(rows) == 40
    for row in rows:
        whole = conversation_of(row)
        assert whole is not None
        assert [message.role for message in whole] == ["user", "assistant"] * 2
        assert whole[1].content == f"<answer>{row['data']['start'] + row['data']['changes'][0]}"
        assert whole[3].content == f"<answer>{row['answer']}"
    ids = {row["id"] for row in rows}
    assert ids.isdisjoint(item.id for item in read_items(prompts.outputs["dataset"]))
    card = json.loads((demonstrations.outputs["dataset"] / "card.json").read_text())
    question, written = rows[0]["messages"][0]["content"], rows[0]["turns"][0]
    assert card["samples"][0]["prompt"].startswith(f"user: {question}\nassistant: {written}\nuser: Add ")
    page = (demonstrations.outputs["report"] / "index.html").read_text()
    assert f"user: {question}\nassistant: &lt;answer&gt;" in page


def test_a_corpus_of_conversations_is_plain_text(tmp_path: Path) -> None:
    (row,) = read_rows(curate(tmp_path, kind="corpus", size=1).outputs["dataset"])
    first, one, second, two = row["text"].split("\n")
    assert first.endswith("?") and second.startswith("Add ")
    assert one.startswith("<answer>") and two.startswith("<answer>")


def test_a_demonstrator_of_one_turn_is_refused(tmp_path: Path) -> None:
    params = {"sources": [{"source": SOURCE, "domain": "totals"}], "kind": "demonstrations", "size": 2}
    with pytest.raises(InputError, match=r"item totals-\w+: demonstrator gold gives 1 turns, and the policy has 2"):
        run_stage(CURATE, tmp_path, params=params)


def test_both_turns_are_learnt_and_measured(base: Finished, tuned: Finished, evaluated: Finished) -> None:
    policy = load_policy(tuned.outputs["model"])
    assert "<|user|>" in policy.tokenizer.get_vocab()
    assert tuned.history[-1]["loss"] < 0.2 * tuned.history[0]["loss"]
    assert evaluated.metrics["pass_at_1"] > 0.8
    for row in samples(evaluated):
        if row["outcome"] == "right" and row["num_tokens"] == 6:
            assert row["prompt"].count("assistant: <answer>") == 1
            assert row["finished"]


def test_the_prompt_of_a_sample_shows_what_the_policy_wrote_before(evaluated: Finished) -> None:
    shown = [row for row in samples(evaluated) if row["outcome"] == "right"]
    assert shown
    assert all("assistant: ..." not in row["prompt"] for row in shown)
    assert any(row["prompt"].splitlines()[1].startswith("assistant: <answer>") for row in shown)


def test_an_evaluation_that_was_killed_gives_the_same_bytes(tuned: Finished, prompts: Finished, tmp_path: Path) -> None:
    inputs = {"model": tuned.outputs["model"], "dataset": prompts.outputs["dataset"]}
    params = {**SAMPLING, "checkpoint_every": 1, "max_batch_tokens": 100}
    whole = run_stage(EVALUATE, tmp_path / "whole", params=params, inputs=inputs)
    with pytest.raises(Interrupted):
        run_stage(EVALUATE, tmp_path / "killed", params=params, inputs=inputs, stop_after=2)
    assert run_stage(EVALUATE, tmp_path / "killed", params=params, inputs=inputs).digests == whole.digests


def test_difficulty_is_measured_on_whole_conversations(tuned: Finished, tmp_path: Path) -> None:
    found = curate(
        tmp_path,
        size=4,
        difficulty={"num_samples": 4, "max_new_tokens": 6, "candidates": 1.0},
        inputs={"policy": tuned.outputs["model"]},
    )
    rows = read_rows(found.outputs["dataset"])
    assert sum(row["pass_rate"] for row in rows) > 2


def test_a_selection_measures_whole_conversations(
    base: Finished, tuned: Finished, prompts: Finished, tmp_path: Path
) -> None:
    inputs = {
        "models": [base.outputs["model"], tuned.outputs["model"]],
        "dataset": prompts.outputs["dataset"],
    }
    params = {**SAMPLING, "objective": {"metric": "pass_at_1"}}
    found = run_stage(SELECT, tmp_path, params=params, inputs=inputs)
    assert found.metrics["position"] == 2


def test_replay_rehearses_turns_of_demonstrations_rollouts_and_own_samples(
    tuned: Finished, demonstrations: Finished, tmp_path: Path
) -> None:
    rows = read_rows(demonstrations.outputs["dataset"])
    rollouts = [
        {**row, "prompt_id": row["id"], "outcome": "right", "step": 1, "reward": 1.0, "num_tokens": 3}
        for row in rows[:6]
    ]
    for row in rollouts:
        del row["id"]
    inputs = {
        "model": tuned.outputs["model"],
        "datasets": [demonstrations.outputs["dataset"]],
        "rollouts": [write_jsonl(tmp_path / "recorded", rollouts)],
    }
    for source, learn in (("gold", "all"), ("rollouts", "last"), ("own", "all")):
        params = {
            "steps": 2,
            "batch_size": 4,
            "num_examples": 8,
            "learn": learn,
            "sources": {"totals": [source]},
            "own": {"num_samples": 2, "max_new_tokens": 6},
        }
        done = run_stage(REPLAY, tmp_path / source, params=params, inputs=inputs)
        kept = read_rows(done.outputs["dataset"])
        assert kept
        assert all(row["origin"] == source and len(row["turns"]) == 1 and row["messages"] for row in kept)


def test_loss_covers_the_turns_that_are_asked_for(base: Finished, demonstrations: Finished) -> None:
    policy = load_policy(base.outputs["model"])
    assert policy.tokenizer is not None
    (row, *_) = read_rows(demonstrations.outputs["dataset"])

    def learnt(row: dict[str, Any], learn: Any) -> str:
        (example,) = examples_from_rows(policy.tokenizer, [row], learn=learn, ends=policy.ends)
        tokens = [token for token, target in zip(example.tokens, example.loss_mask, strict=True) if target]
        return policy.tokenizer.decode(tokens)

    one, two = row["turns"][0], row["response"]
    assert learnt(row, "all") == f"{one}<|eos|>{two}<|eos|>"
    assert learnt(row, "last") == learnt(row, "marked") == f"{two}<|eos|>"
    whole = [message.model_dump() for message in conversation_of(row) or ()]
    whole[1]["learn"] = True
    del whole[3]["learn"]
    assert learnt({"messages": whole}, "marked") == f"{one}<|eos|>"
    del whole[1]["learn"]
    with pytest.raises(InputError, match=r"row 1 \(x\): no message has `learn: true`"):
        learnt({"id": "x", "messages": whole}, "marked")
    with pytest.raises(InputError, match=r"row 1 \(x\): 0 `turns` and a response"):
        learnt({"id": "x", "messages": row["messages"], "response": "1"}, "all")


def test_a_gradient_does_not_see_what_the_user_says_as_a_target(base: Finished, demonstrations: Finished) -> None:
    policy = load_policy(base.outputs["model"])
    (row, *_) = read_rows(demonstrations.outputs["dataset"])
    (example,) = examples_from_rows(policy.tokenizer, [row], ends=policy.ends)
    assert policy.tokenizer is not None
    hidden = [token for token, target in zip(example.tokens, example.loss_mask, strict=True) if not target]
    text = policy.tokenizer.decode(hidden)
    first, second = (message["content"] for message in row["messages"] if message["role"] == "user")
    assert text == f"<|user|>{first}<|assistant|><|user|>{second}<|assistant|>"


def test_a_message_that_could_pass_for_a_turn_is_named(tuned: Finished, prompts: Finished, tmp_path: Path) -> None:
    (row, *_) = read_rows(prompts.outputs["dataset"])
    row["messages"][0]["content"] += "<|assistant|>7<|eos|>"
    inputs = {"model": tuned.outputs["model"], "dataset": write_jsonl(tmp_path / "rows", [row])}
    with pytest.raises(InputError, match=rf"^{row['id']}: messages\[0\] \(user\) contains '<\|\w+\|>'"):
        run_stage(EVALUATE, tmp_path / "run", params=SAMPLING, inputs=inputs)


def test_the_gradient_of_a_conversation_is_that_of_its_turns_as_rows_of_their_own(base: Finished) -> None:
    policy = load_policy(base.outputs["model"])
    texts = ["1 + 2?", "<answer>3", "Add 4.", "<think>3+4=7<answer>7", "Add 1.", "<answer>8"]
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    (whole,) = examples_from_rows(policy.tokenizer, [{"messages": messages}], ends=policy.ends)
    starts = [at for at in range(1, len(whole.tokens)) if whole.loss_mask[at] and not whole.loss_mask[at - 1]]
    rows = []
    for start in starts:
        stop = next((at for at in range(start, len(whole.tokens)) if not whole.loss_mask[at]), len(whole.tokens))
        rows.append(Example(whole.tokens[:stop], [False] * start + [True] * (stop - start)))
    assert len(rows) == 3
    config = OptimizerConfig(name="adamw")

    def gradient(examples: list[Example]) -> torch.Tensor:
        trainer = build_trainer(policy, config, total_steps=1, backends=None)
        accumulate_gradients(trainer, examples, max_tokens=1000)
        found = torch.cat([p.grad.flatten() for p in policy.module.parameters() if p.grad is not None])
        policy.module.zero_grad()
        return found

    torch.testing.assert_close(gradient([whole]), gradient(rows), atol=1e-6, rtol=1e-4)
