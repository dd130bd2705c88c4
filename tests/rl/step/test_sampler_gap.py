"""Ratios begin at 1 whatever drew the tokens; the sampler's gap is measured, corrected above a bound, and an alarm."""

from __future__ import annotations

import string
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import pytest
import torch
from torch import Tensor

from components.modeling.generation.generate import DrawOptions, Samples, generate
from components.modeling.generation.sampler import NativeSampler, Sampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.logprobs import TokenScores
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.alarms import RL_ALARMS
from components.rl.batch.batch import FOREIGN, Batch, Prompt
from components.rl.params import RLParams
from components.rl.run import build_loop
from components.rl.sampler_correction import SamplerCorrection
from components.rl.step import learner
from components.rl.step.diagnostics import PartTally, tally_part
from components.rl.step.loop import Loop
from components.rl.step.sampler_gap import GapSums, SamplerGap, corrected, gap_of_update
from components.rl.step.scoring import frozen_logprobs
from components.runtime.alarms.watch import Watch
from components.tasks.item import Item
from tests.rl.build import batch_of, context, operator

WEIGHTS = {"sampler_weight_mean", "sampler_weight_min"}
BOUNDS = {"float32": (1e-5, 3e-6), "bfloat16": (2e-2, 1e-3)}
"""Largest and root mean square of log ratios at the start: 0 where a pass has the same rows, else its rounding."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose weights are large enough for bfloat16 to show."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    policy = new_policy(ModelConfig(width=32, layers=2, heads=2, mlp_width=48), tokenizer=tokenizer, seed=0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    policy.save(folder)
    return folder


class Shifted(NativeSampler):
    """Says of every token that it was a little less likely than the policy says."""

    def __init__(self, policy: Policy, shift: float) -> None:
        super().__init__(policy)
        self.shift = shift

    def sample(
        self,
        prompts: Any,
        config: SamplingConfig,
        *,
        generator: torch.Generator,
        **options: Unpack[DrawOptions],
    ) -> Samples:
        samples = super().sample(prompts, config, generator=generator, **options)
        return replace(samples, logprobs=samples.logprobs - self.shift)


class Stale(NativeSampler):
    """Keeps to the first weights, as an engine that never gets new ones."""

    is_policy = False

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.first = policy.copy()

    def sample(
        self,
        prompts: Any,
        config: SamplingConfig,
        *,
        generator: torch.Generator,
        **options: Unpack[DrawOptions],
    ) -> Samples:
        drawn = generate(self.first, prompts, config, generator=generator, **options)
        return self.scored(prompts, drawn, temperature=config.temperature)


def loop_of(folder: Path, policy: Policy, sampler: Sampler | None = None, **given: object) -> Loop:
    """A loop whose reward about half of the responses earn, so that all groups have a signal."""
    items = [Item(id=f"p{i}", domain="A", prompt=f"letter {i}", answer="x", verifier="exact") for i in range(4)]
    tokens = encode_prompts(policy.tokenizer, [item.prompt for item in items])
    pool = [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]
    half = {"name": "pattern", "pattern": f"^[{string.ascii_letters[::2]}]"}
    base = {"method": "dr-grpo", "rewards": [half], "prompts_per_step": 4, "group_size": 8, "max_new_tokens": 12}
    rest = {"optimizer": {"peak_learning_rate": 3e-2, "warmup_steps": 0}, "start_kl_every": 0, "steps": 4}
    return build_loop(RLParams.model_validate(base | rest | given), policy, pool, start=folder, seed=0, sampler=sampler)


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.5])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("backend", ["native", "transformers"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_ratios_begin_at_one(device: str, backend: Any, dtype: str, temperature: float, folder: Path) -> None:
    policy = load_policy(folder, backend=backend, dtype=dtype, device=device)
    largest, typical = BOUNDS[dtype] if device == "cpu" or dtype != "float32" else (1e-4, 3e-5)
    row = loop_of(folder, policy, temperature=temperature).step()
    assert row["num_updates"] == 1
    assert 1 - largest <= row["ratio_min"] <= row["ratio_max"] <= 1 + largest
    assert (2 * row["update_kl_k2"]) ** 0.5 <= typical
    if dtype == "float32":
        assert "sampler_gap_mean" not in row  # measured, and no more than rounding
    else:
        assert 1e-3 < row["sampler_gap_mean"] < 3e-2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gspos_band_holds_every_fresh_response(dtype: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over four minibatches, each in several passes, with a step too small to move a weight.

    By the log-probabilities that the bfloat16 sampler decoded with, responses would lie outside before any update.
    """
    sequence_ratios: dict[str, list[Tensor]] = {"scored": [], "drawn": []}

    def watched(part: Batch, scores: TokenScores, *given: Any, **named: Any) -> PartTally:
        logprobs = scores.logprobs.detach()
        for name, old in (("scored", part.old_logprobs), ("drawn", part.behaviour_logprobs)):
            sequence_ratios[name].append(part.response_mean(logprobs - old).exp())
        told = tally_part(part, scores, *given, **named)
        assert 1 - 2e-6 <= told.ratio_min <= told.ratio_max <= 1 + 2e-6 or dtype == "float32"
        return told

    monkeypatch.setattr(learner, "tally_part", watched)
    policy = load_policy(folder, dtype=dtype)
    still = {"peak_learning_rate": 1e-12, "warmup_steps": 0}
    sizes = {"max_new_tokens": 32, "minibatches": 4, "micro_batch_tokens": 200}
    every = [{"name": "entropy", "coefficient": 0.0}]  # of no weight, but then no response is left out
    row = loop_of(folder, policy, method="gspo", regularizers=every, optimizer=still, **sizes).step()
    assert row["num_updates"] == 4 and row["clip_fraction"] == 0
    scored, drawn = (torch.cat(found) for found in sequence_ratios.values())
    assert len(scored) == 32 and bool(((scored > 1 - 3e-4) & (scored < 1 + 4e-4)).all())
    outside = float(((drawn < 1 - 3e-4) | (drawn > 1 + 4e-4)).float().mean())
    assert outside > 0.5 if dtype == "bfloat16" else outside == 0
    assert ("sampler_gap_mean" in row) == (dtype == "bfloat16")


def test_a_float32_sampler_that_errs_is_found_by_the_first_update(folder: Path) -> None:
    """Its log-probabilities are 0.5 nats off; nothing is scored for that, and ratios correct for it by themselves."""
    policy = load_policy(folder)
    loop = loop_of(folder, policy, Shifted(policy, 0.5), minibatches=2, epochs=2)
    rows = [loop.step() for _ in range(4)]
    for row in rows:
        assert row["sampler_gap_mean"] == pytest.approx(0.5, abs=1e-4)
        assert row["sampler_gap_max"] == pytest.approx(0.5, abs=1e-4) and not WEIGHTS & set(row)
    watch = Watch(RL_ALARMS)
    for step, row in enumerate(rows, 1):
        watch.take(step, row)
    (found,) = watch.raised
    assert found.name == "sampler_gap" and "0.5" in found.text


def test_replayed_batches_are_not_taken_for_the_samplers_gap(folder: Path) -> None:
    policy = load_policy(folder)
    loop = loop_of(folder, policy, method="rorecomp", rewards=[{"name": "pattern", "pattern": "^[a-m]"}])
    assert not any("sampler_gap_mean" in loop.step() for _ in range(3))


def test_a_gap_above_the_bound_is_corrected_by_default(folder: Path) -> None:
    def rows(**given: object) -> list[dict[str, float]]:
        policy = load_policy(folder)
        loop = loop_of(folder, policy, Stale(policy), **given)
        return [loop.step() for _ in range(3)]

    plain = rows()
    assert plain[0]["sampler_gap_mean"] < 1e-4 and not WEIGHTS & set(plain[0])
    for row in plain[1:]:
        assert row["sampler_gap_mean"] > 1e-2
        assert 0 < row["sampler_weight_min"] < row["sampler_weight_mean"] < 2 and row["sampler_weight_mean"] != 1
    for given in (
        {"sampler_correction": None},
        {"sampler_correction": {"above": 50.0}},
        {"advantages": ["group_mean", "truncated_importance"]},
    ):
        assert not any(WEIGHTS & set(row) for row in rows(**given))


def test_a_bfloat16_policy_that_draws_itself_is_corrected(folder: Path) -> None:
    policy = load_policy(folder, dtype="bfloat16")
    row = loop_of(folder, policy).step()
    assert row["sampler_gap_mean"] > 1e-3 and row["sampler_weight_mean"] == pytest.approx(1, abs=0.05)
    annealed = loop_of(folder, policy, rollout="annealed_group").step()
    assert "sampler_gap_mean" not in annealed and not WEIGHTS & set(annealed)  # it samples otherwise by intent


def test_weights_are_those_of_the_operator_and_spare_what_others_wrote() -> None:
    """Behaviour 0.5 nats below and 3 above: exp(0.5), and exp(-3); exp(1) is cut at 2."""
    batch = batch_of([[1.0, 0.0, 1.0]], [[1, 1, 1]])
    shift = torch.tensor([0.5, -3.0, 1.0])
    batch = replace(batch, behaviour_logprobs=batch.old_logprobs - shift, advantages=torch.tensor([1.0, -1.0, 2.0]))
    gap = SamplerGap()
    gap._sums.append(GapSums(3, 4.5, 1.0, 3.0))
    assert gap.mean == 1.5
    found, metrics = corrected(batch, gap, SamplerCorrection())
    assert found.advantages.tolist() == pytest.approx([1.6487213, -0.0497871, 4.0])
    assert metrics["sampler_weight_min"] == pytest.approx(0.0497871)
    assert torch.equal(found.advantages, operator("advantage", "truncated_importance")(batch, context()))
    given = replace(batch, author=torch.tensor([0, FOREIGN, FOREIGN]))
    assert corrected(given, gap, SamplerCorrection())[0].advantages.tolist() == pytest.approx([1.6487213, -1.0, 2.0])
    for config in (None, SamplerCorrection(above=1.5)):
        assert corrected(batch, gap, config) == (batch, {})
    assert corrected(batch, SamplerGap(), SamplerCorrection()) == (batch, {})


def test_an_update_measures_only_what_the_sampler_said() -> None:
    batch = batch_of([[1.0, 0.0, 1.0, 0.0]], [[1, 1, 1, 1]])
    behaviour = batch.behaviour_logprobs.clone()
    behaviour[1] -= 1.0  # scored again
    batch = replace(batch, behaviour_logprobs=behaviour, author=torch.tensor([0, 0, FOREIGN, 0]))
    own = batch.old_logprobs + torch.tensor([0.25, 9.0, 9.0, -0.5])
    found = gap_of_update(batch, own)
    assert (found.num_tokens, found.absolute, found.largest) == (2, pytest.approx(0.75), pytest.approx(0.5))
    assert gap_of_update(batch.select(torch.tensor([1, 2])), own[1:3]) == GapSums(0, 0.0, 0.0, 0.0)


def test_a_bfloat16_draw_begins_from_what_training_computes(folder: Path) -> None:
    """Single responses and conversations, at the temperature of the draw."""
    policy = load_policy(folder, dtype="bfloat16")
    loop = loop_of(folder, policy, temperature=0.6)
    space = tuple(policy.tokenizer.encode(" ", add_special_tokens=False))
    for pool in (loop.pool, [replace(prompt, gaps=((*space, *prompt.tokens),)) for prompt in loop.pool]):
        batch = loop.collector().converse(pool, 4)
        own = frozen_logprobs(policy, batch.of_learned(), temperature=0.6, max_tokens=10_000)
        learned = batch.of_learned()
        assert float((learned.old_logprobs - own).abs().mean()) < 1e-3
        assert float((learned.behaviour_logprobs - own).abs().mean()) > 1e-3


def test_what_is_only_verified_is_neither_scored_nor_in_the_gap(folder: Path) -> None:
    collector = loop_of(folder, load_policy(folder, dtype="bfloat16")).collector()
    held = [replace(prompt, gaps=(prompt.tokens,)) for prompt in loop_of(folder, collector.policy).pool]
    for prompts in (loop_of(folder, collector.policy).pool, held):
        batch = collector.draw(prompts, 2, to_learn=False)
        assert torch.equal(batch.old_logprobs, batch.behaviour_logprobs)
    assert collector.gap.mean is None
    collector.draw(held, 2)
    assert collector.gap.mean is not None
