"""Exact evaluation against brute force over all sequences, against samples, and by hand."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from components.contract.errors import InputError
from components.evaluate.component import COMPONENT
from components.evaluate.exact import RightResponse, Scored, score_right_responses
from components.evaluate.exact_report import report_domain
from components.measure.intervals import Bootstrap
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.tasks.item import RIGHT_RESPONSES, Item
from components.tasks.verify import Outcome, verify
from tests.stages.toy_models import prompt_row, prompt_rows, toy_models
from tests.support.stage_context import run_stage, write_jsonl

EXACT = {"exact": True, "num_samples": 8, "max_new_tokens": 5, "bootstrap_samples": 300}


def nothing(done: int, total: int) -> None:
    """Progress that nobody watches."""


def item(answer: str, *aliases: str, **changes: Any) -> Item:
    data = {"aliases": list(aliases), RIGHT_RESPONSES: [answer, *aliases]}
    return Item(
        **{"id": answer, "domain": "d", "prompt": "cab", "answer": answer, "verifier": "exact", "data": data} | changes
    )


@pytest.fixture(scope="module")
def tiny() -> Policy:
    """A policy whose vocabulary is an end mark and three letters."""
    model = Tokenizer(models.BPE(vocab={"$": 0, "a": 1, "b": 2, "c": 3}, merges=[]))
    model.add_special_tokens(["$"])
    model.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=model, eos_token="$", pad_token="$")
    policy = new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=32), tokenizer=tokenizer, seed=3)
    with torch.no_grad():
        for weight in policy.module.parameters():
            weight.mul_(4)  # an untrained policy is all but uniform, which would hide a wrong factor
    return policy


def by_brute_force(policy: Policy, asked: Item, max_new_tokens: int, temperature: float) -> float:
    """Return the chance of a right response: all sequences that sampling could return, each judged."""
    prompt, total, judged = policy.tokenizer.encode(asked.prompt), 0.0, 0.0
    for length in range(1, max_new_tokens + 1):
        for tokens in product(range(4), repeat=length):
            if 0 in tokens[:-1] or (tokens[-1] != 0 and length < max_new_tokens):
                continue  # sampling stops at an end mark, and not before one or the limit
            with torch.no_grad():
                logits = policy.target_logits(Packed.from_sequences([[*prompt, *tokens]]))[len(prompt) - 1 :]
            logprobs = torch.log_softmax(logits.double() / temperature, -1)
            chance = math.exp(sum(float(logprobs[at, token]) for at, token in enumerate(tokens)))
            text = "".join(" abc"[token] for token in tokens if token)
            total += chance
            judged += chance * (verify(asked, text).outcome is Outcome.RIGHT)
    assert total == pytest.approx(1, abs=1e-5)
    return judged


@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("asked", [item("ab"), item("c", "aab"), item("bca", "b", "cc")], ids=lambda one: one.id)
def test_it_is_what_brute_force_over_all_sequences_finds(tiny: Policy, asked: Item, temperature: float) -> None:
    for limit in (2, 3, 4):  # "bca" is too long for 2, fills 3 without an end mark, and ends at 4
        (found,) = score_right_responses(tiny, [asked], max_new_tokens=limit, temperature=temperature, progress=nothing)
        assert found.probability == pytest.approx(by_brute_force(tiny, asked, limit, temperature), rel=1e-4)


def test_items_do_not_depend_on_their_neighbours(tiny: Policy) -> None:
    asked = [item("ab"), item("bca", "b", prompt="a"), item("c", prompt="bbb")]
    options: dict[str, Any] = {"max_new_tokens": 4, "temperature": 1.0, "progress": nothing}
    together = score_right_responses(tiny, asked, **options)
    for alone, found in zip(asked, together, strict=True):
        assert found.item == alone
        assert found.probability == pytest.approx(score_right_responses(tiny, [alone], **options)[0].probability)


def test_statistics_by_hand() -> None:
    right = (
        RightResponse("R<answer>ab", 5, 0.5, (0.6, 0.0, 0.2, 0.4, 0.1), slice(2, 4)),
        RightResponse("<answer>ab", 4, 0.1, (0.6, 0.1, 0.3, 0.1), slice(1, 3)),
        RightResponse("U<answer>cd", 5, 0.2, (0.6, 0.0, 0.5, 0.5, 0.1), slice(2, 4)),
    )
    report = report_domain([Scored(item("ab"), right)], [1, 2], 2, Bootstrap(100))
    found = {name: interval.value for name, interval in report.intervals.items()}
    assert found == pytest.approx(
        {
            "pass_at_1": 0.8,
            "pass_at_2": 1 - 0.2**2,
            "mean_tokens_right": (0.5 * 5 + 0.1 * 4 + 0.2 * 5) / 0.8,
            "right_answers": (1 - 0.4**2) + (1 - 0.8**2),
            "right_responses": (1 - 0.5**2) + (1 - 0.9**2) + (1 - 0.8**2),
            "entropy_first": 0.6,
            "entropy_answer": (0.5 * 0.3 + 0.1 * 0.2 + 0.2 * 0.5) / 0.8,
        }
    )


def test_what_cannot_be_written_is_never_found() -> None:
    report = report_domain([Scored(item("ab"), ())], [1, 8], 8, Bootstrap(100))
    assert report.intervals["pass_at_8"].value == 0 and "entropy_answer" not in report.intervals


def listed(*domains: str) -> list[dict[str, Any]]:
    rows = prompt_rows(*domains)
    return [{**row, "data": {RIGHT_RESPONSES: [row["answer"], f"<answer>{row['answer']}"]}} for row in rows]


def test_samples_come_out_at_the_same_numbers_under_the_same_names(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data", listed("copy", "flip"))
    inputs = {"model": toy_models().forgetful, "dataset": data}
    hot = {"temperature": 1.2}  # at 1 this model is all but sure
    exact = run_stage(COMPONENT, tmp_path / "exact", params=EXACT | hot, inputs=inputs)
    drawn = run_stage(
        COMPONENT,
        tmp_path / "drawn",
        params=EXACT | hot | {"exact": False, "num_samples": 100, "ks": [1, 2, 8]},
        inputs=inputs,
    )
    for domain in ("copy", "flip"):
        for k in (1, 2, 8):
            name = f"pass_at_{k}_{domain}"
            noise = math.sqrt(k / (4 * 100 * 12))  # at most: samples spread by .5, and pass@k is k times as steep
            assert exact.metrics[name] == pytest.approx(drawn.metrics[name], abs=4 * noise), name
    assert 0 < exact.metrics["pass_at_1_flip"] < exact.metrics["pass_at_1_copy"] < 1
    assert exact.metrics["num_failed"] == 0
    lines = [json.loads(line) for line in (exact.outputs["metrics"] / "exact.jsonl").read_text().splitlines()]
    flips = [line["probability"] for line in lines if line["domain"] == "flip"]
    assert exact.metrics["pass_at_1_flip"] == pytest.approx(sum(flips) / 12)
    assert run_stage(COMPONENT, tmp_path / "again", params=EXACT | hot, inputs=inputs).digests == exact.digests
    other = run_stage(COMPONENT, tmp_path / "other", params=EXACT | hot, inputs=inputs, seed=1)
    assert other.metrics == exact.metrics  # nothing is drawn; only the intervals over prompts are


@pytest.mark.parametrize(
    "row, message",
    [
        (prompt_row("copy", "ab"), "does not list its right responses"),
        (prompt_row("copy", "ab", data={RIGHT_RESPONSES: "ab"}), "does not list its right responses"),
        (
            prompt_row("copy", "ab", data={RIGHT_RESPONSES: ["ab", "ba"]}),
            "lists 'ba' as right, but its verifier says wrong",
        ),
        (prompt_row("copy", "ab", data={RIGHT_RESPONSES: ["ab<|eos|>ab"]}), "its verifier says wrong"),
        (prompt_row("copy", "ab", data={RIGHT_RESPONSES: ["zz<answer>ab<|eos|>"]}), "its verifier says wrong"),
        (prompt_row("copy", "ab", data={RIGHT_RESPONSES: ["<|pad|><answer>ab"]}), "the model's tokens write as"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_a_line(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    data = write_jsonl(tmp_path / "data", [row])
    with pytest.raises(InputError, match=message) as refused:
        run_stage(COMPONENT, tmp_path, params=EXACT, inputs={"model": toy_models().both, "dataset": data})
    assert "\n" not in str(refused.value)


def test_a_baseline_and_a_part_of_the_distribution_are_refused(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data", listed("copy"))
    inputs = {"model": toy_models().both, "dataset": data}
    first = run_stage(COMPONENT, tmp_path / "first", params=EXACT, inputs=inputs)
    with pytest.raises(InputError, match="input baseline"):
        again = {**inputs, "baseline": first.outputs["metrics"]}
        run_stage(COMPONENT, tmp_path / "second", params=EXACT, inputs=again)
    for setting in ({"top_p": 0.9}, {"temperature": 0, "num_samples": 1}):
        with pytest.raises(ValueError, match="whole distribution"):
            COMPONENT.params.model_validate(EXACT | setting)
