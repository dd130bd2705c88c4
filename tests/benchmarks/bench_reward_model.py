"""Speed of a reward model's training against TRL's RewardTrainer: same model, head, pairs, batch, updates and
optimiser; one thread.

Run as a script for the table and JSON: `python -m tests.benchmarks.bench_reward_model --json out.json`. Repeats are
interleaved, so that all meet the same machine, and figures are by CPU seconds. What is timed is the training call;
tokenisation, loading and saving are outside. TRL pads both sides of all pairs of a batch to the longest text and
computes each prompt twice. It has no setting without padding, so the second peer is TRL's trainer with passes of our
own making: the same texts laid behind one another in rows of WIDTH tokens, each of which sees its own text alone, and
the head read at their ends. What is left to us against that one is the prompt, computed once for both sides.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from components.modeling.scorers.network import RewardNetwork
from components.reward_model.config import ScorerLossConfig
from components.reward_model.params import RewardModelParams
from components.reward_model.rows import Unit, read_units
from components.reward_model.training import Fitting, fit_scorer
from tests.benchmarks.bench_generation import Clock
from tests.benchmarks.bench_preference import pairs
from tests.benchmarks.script import run_script
from tests.benchmarks.training import BATCH, Quiet, Timing, beside, demonstrations, make_base, settings, timed
from tests.support.stage_context import write_jsonl

LEARNING_RATE = 3e-4
WIDTH = 128
"""Tokens in a row of the peer without padding: attention costs as many for each, and longer rows cost more."""
Ids = Sequence[int]


def opened(base: Path) -> tuple[Policy, RewardModelParams, RewardNetwork]:
    """Return the model with a new head, always the same, and the stage's parameters."""
    params, policy = RewardModelParams(), load_policy(base)
    config = params.scorer_loss.resolve().config
    assert isinstance(config, ScorerLossConfig)
    return policy, params, RewardNetwork(policy, config.layout(), seed=5)


def time_ours(base: Path, units: Sequence[Unit], steps: int) -> Timing:
    """Train with the trainer of the reward_model stage."""
    policy, params, network = opened(base)
    optimizer = {"peak_learning_rate": LEARNING_RATE, "betas": [0.9, 0.999]}
    given = {"steps": steps, "batch_size": BATCH, "optimizer": optimizer, "checkpoint_every": 0}
    hooks, config = Quiet(), RewardModelParams.model_validate(given)
    clock = Clock()
    fit_scorer(policy, [], config, hooks, fitting=Fitting(network, units, params.scorer_loss.resolve()), seed=0)  # type: ignore[arg-type]
    return Timing(*clock.stop(), hooks.losses[0], hooks.losses[-1])


def time_trl(base: Path, units: Sequence[Unit], steps: int, *, packed: bool = False) -> Timing:
    """Train with TRL's RewardTrainer on the same token ids."""
    from datasets import Dataset
    from transformers import AutoModelForSequenceClassification
    from trl import RewardConfig, RewardTrainer

    class PackedTrainer(RewardTrainer):  # type: ignore[misc]
        """TRL's trainer, whose passes hold no padding to speak of."""

        def compute_loss(self, model: Any, inputs: dict[str, Tensor], *_: Any, **__: Any) -> Tensor:
            ends = inputs.pop("rows"), inputs.pop("ends")
            rewards = model.score(model.model(**inputs, use_cache=False).last_hidden_state[ends]).squeeze(-1)
            chosen, rejected = rewards.chunk(2)
            return -torch.nn.functional.logsigmoid(chosen - rejected).mean()

    rows = [dict(zip(("chosen_ids", "rejected_ids"), map(list, texts_of(unit)), strict=True)) for unit in units]
    with tempfile.TemporaryDirectory() as folder:
        policy, _, _ = opened(base)
        policy.save(Path(folder) / "scorer")
        given = settings(folder, steps, by_length=False) | {"learning_rate": LEARNING_RATE}
        trainer = (PackedTrainer if packed else RewardTrainer)(
            model=AutoModelForSequenceClassification.from_pretrained(Path(folder) / "scorer", dtype=torch.float32),
            processing_class=policy.tokenizer,
            args=RewardConfig(**given, bf16=False, gradient_checkpointing=False),
            train_dataset=Dataset.from_list(rows),
            **({"data_collator": collate} if packed else {}),
        )
        return timed(trainer)


def texts_of(unit: Unit) -> list[Ids]:
    """Return the tokens of both sides."""
    return [reading.tokens for reading in unit.readings]


def collate(rows: Sequence[dict[str, list[int]]]) -> dict[str, Tensor]:
    """Return texts in rows, all chosen ones before the rejected ones in `rows` and `ends`."""
    texts = [row[side] for side in ("chosen_ids", "rejected_ids") for row in rows]
    bins = packs([len(text) for text in texts])
    width = max(sum(len(texts[at]) for at in one) for one in bins)
    ids, positions, member = (torch.full((len(bins), width), fill) for fill in (0, 0, -1))
    found = torch.zeros(2, len(texts), dtype=torch.long)
    for number, one in enumerate(bins):
        at = 0
        for index in one:
            end = at + len(texts[index])
            ids[number, at:end] = torch.tensor(texts[index])
            positions[number, at:end] = torch.arange(end - at)
            member[number, at:end] = index
            found[:, index] = torch.tensor([number, end - 1])
            at = end
    own = member[:, :, None] == member[:, None, :]  # padding at a row's end sees itself: no row of a softmax is empty
    mask = (own & torch.ones(width, width, dtype=torch.bool).tril())[:, None]
    names = ("input_ids", "position_ids", "attention_mask", "rows", "ends")
    return dict(zip(names, (ids, positions, mask, *found), strict=True))


def packs(lengths: Sequence[int]) -> list[list[int]]:
    """Return indices in rows of at most WIDTH tokens: the longest first, each into the first row with room."""
    found: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        at = next((at for at, left in enumerate(room) if left >= lengths[index]), None)
        if at is None:
            found.append([])
            room.append(WIDTH)
            at = len(found) - 1
        found[at].append(index)
        room[at] -= lengths[index]
    return found


TIMERS: dict[str, Callable[[Path, Sequence[Unit], int], Timing]] = {
    "ours": time_ours,
    "trl": time_trl,
    "trl_without_padding": partial(time_trl, packed=True),
}


def compare(*, steps: int, repeats: int) -> dict[str, Any]:
    """Return the figures, a row for each peer; tokens are those of both texts of each pair, whoever computes them."""
    torch.set_num_threads(1)
    rows = pairs(BATCH * steps)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        make_base(base, demonstrations(BATCH * steps))
        policy, params, _ = opened(base)
        config = params.scorer_loss.resolve().config
        units = read_units(policy, [write_jsonl(Path(folder) / "rows", rows)], config)  # type: ignore[arg-type]
        for timer in TIMERS.values():
            timer(base, units[: 2 * BATCH], 2)
        rounds = [{name: timer(base, units, steps) for name, timer in TIMERS.items()} for _ in range(repeats)]
    tokens = sum(len(text) for unit in units for text in texts_of(unit))
    ours = [found["ours"] for found in rounds]
    figures: dict[str, Any] = {
        "steps": steps,
        "batch": BATCH,
        "tokens": tokens,
        "ours_tokens_per_cpu_second": [round(tokens / one.cpu_seconds) for one in ours],
        "first_loss": ours[0].first_loss,
        "last_loss": ours[0].last_loss,
        "peers": {},
    }
    for name in ("trl", "trl_without_padding"):
        theirs = [found[name] for found in rounds]
        figures["peers"][name] = {
            "tokens_per_cpu_second": [round(tokens / one.cpu_seconds) for one in theirs],
            **beside(ours, theirs),
        }
    return figures


@pytest.mark.benchmark
def test_a_reward_model_is_trained_faster_than_by_trl() -> None:
    result = compare(steps=6, repeats=3)
    for name, bar in {"trl": 2.0, "trl_without_padding": 1.5}.items():
        row = result["peers"][name]
        assert row["first_loss"] == pytest.approx(result["first_loss"], rel=0.1)
        assert row["last_loss"] == pytest.approx(result["last_loss"], abs=0.2)  # of another batch
        assert row["cpu_ratio_median"] >= bar, result


if __name__ == "__main__":
    run_script(__doc__, compare, steps=6, repeats=3)
