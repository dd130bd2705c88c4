"""CRPG, CRRAFT and CODPO: by hand, against loops over the formulas, several tasks in one batch, and whole steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import FOREIGN, Batch
from components.rl.operators.objectives.codpo import CodpoConfig, pairs_of
from components.rl.step.context import SlotContext
from components.rl.step.learner import token_weights
from tests.rl.build import batch_of, context, gradient, near, noisy_scores, operator, rows_of
from tests.rl.step.test_learner import assert_equal, gradients, learner, slots_of, tiny
from tests.rl.tiny_loop import loop_of, write_model

Groups = Sequence[Sequence[float]]


def tasks(
    rewards: Groups,
    lengths: Sequence[Sequence[int]] | None = None,
    *,
    domains: str = "",
    divergence: Sequence[float] | None = None,
    external: Sequence[int] = (),
    seed: int = 0,
) -> Batch:
    """Return a batch with a domain for each group, a divergence for each response, and some external responses."""
    batch = batch_of(rewards, lengths, seed=seed)
    named = domains or "A" * len(rewards)
    prompts = tuple(
        replace(prompt, item=prompt.item.model_copy(update={"domain": domain}))
        for prompt, domain in zip(batch.prompts, named, strict=True)
    )
    given_s = torch.tensor(divergence if divergence is not None else [0.0] * batch.num_responses)
    reference = batch.old_logprobs - batch.to_tokens(given_s / batch.lengths)
    rows = torch.zeros(batch.num_responses, dtype=torch.bool)
    rows[list(external)] = True
    author = batch.author.masked_fill(batch.to_tokens(rows), FOREIGN)
    return replace(batch, prompts=prompts, reference_logprobs=reference, author=author)


def advantages(name: str, batch: Batch, now: SlotContext | None = None, **config: Any) -> list[float]:
    """Return one advantage for each response, which its tokens share."""
    found = operator("advantage", name, **config)(batch, now or context())
    rows = rows_of(batch, batch.with_advantages(found).advantages)
    assert all(len(set(row)) == 1 for row in rows)
    return [row[0] for row in rows]


def test_crpg_by_hand() -> None:
    batch = tasks([[0.8, 0.6], [-0.4, 0.5]], divergence=[1.0, 4.0, 0.0, -1.0])
    now = context()
    # factors 1 - 1/4 = .75, 0, 1, 1.25: rewards .6, 0, 0, .625, mean .30625
    found = advantages("crpg", batch, now, kl_max=4.0)
    assert near(found, [0.6 - 0.30625, -0.30625, -0.30625, 0.625 - 0.30625])
    assert now.metrics == {"divergence_A": pytest.approx(1.0), "beyond_kl_max_A": 0.25}


def test_crraft_by_hand() -> None:
    batch = tasks([[0.8, 0.6, 0.6], [-0.4, 0.0, -0.1]], divergence=[5.0, 4.0, 1.0, 0.0, 0.0, 0.0])
    now = context()
    # .8 lies beyond the limit; of two equal ones the first; the second prompt is skipped: 6 responses over 1 prompt
    assert near(advantages("crraft", batch, now, kl_max=4.0), [0, 6 * 0.6, 0, 0, 0, 0])
    assert now.metrics == {
        "divergence_A": pytest.approx(10 / 6),
        "beyond_kl_max_A": pytest.approx(1 / 6),
        "crraft_learned": 0.5,
        "crraft_baselines": 0.0,
    }


def test_a_baseline_answer_is_learned_from_where_nothing_else_is() -> None:
    batch = tasks(
        [[-0.2, 0.5], [0.3, 0.5], [-0.2, 0.5], [0.0, -0.5]], external=[1, 3, 5, 7], divergence=[0.0] * 5 + [9.0, 0, 0]
    )
    now = context()
    # its own .3 goes before the external .5; the third baseline lies beyond the limit, the fourth violates
    assert near(advantages("crraft", batch, now, kl_max=4.0), [0, 4 * 0.5, 4 * 0.3, 0, 0, 0, 0, 0])
    assert now.metrics["crraft_learned"] == 0.5 and now.metrics["crraft_baselines"] == 0.25
    assert near(advantages("crpg", batch, kl_max=4.0)[1::2], [0.0] * 4), "external responses have no advantage"


def by_loop(batch: Batch, method: str, domains: str, kl_max: float, weight: float) -> float:
    """The loss of one task, at log pi = old log-probabilities, from lists of numbers."""
    gaps = [
        sum(old) - sum(ref)
        for old, ref in zip(rows_of(batch, batch.old_logprobs), rows_of(batch, batch.reference_logprobs), strict=True)
    ]
    likely = [sum(row) for row in rows_of(batch, batch.old_logprobs)]
    external = batch.external.tolist()
    rows = [row for row, group in enumerate(batch.group.tolist()) if batch.prompts[group].item.domain in domains]
    if method == "crpg":
        own = [row for row in rows if not external[row]]
        values = {row: max(float(batch.rewards[row]), 0) * max(0, 1 - gaps[row] / kl_max) for row in own}
        mean = sum(values.values()) / max(1, len(own))
        return -weight * sum((values[row] - mean) * likely[row] for row in own) / max(1, len(own))
    losses = []
    for group in sorted({int(batch.group[row]) for row in rows}):
        members = [row for row in rows if int(batch.group[row]) == group]
        values = {row: max(float(batch.rewards[row]), 0) * (gaps[row] <= kl_max) for row in members}
        for side in (False, True):
            candidates = [row for row in members if external[row] is side and values[row] > 0]
            if candidates:
                best = max(candidates, key=lambda row: values[row])
                losses.append(-values[best] * likely[best])
                break
    return weight * sum(losses) / max(1, len(losses))


@given(
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=5),
    seed=st.integers(0, 50),
    kl_max=st.sampled_from([0.5, 2.0, 50.0]),
    methods=st.tuples(st.sampled_from(["crpg", "crraft"]), st.sampled_from(["crpg", "crraft"])),
)
def test_the_loss_is_the_weighted_sum_of_the_losses_of_tasks(
    sizes: list[int], seed: int, kl_max: float, methods: tuple[str, str]
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rewards = [(torch.rand(size, generator=generator) * 2 - 1).tolist() for size in sizes]
    lengths = [torch.randint(1, 5, (size,), generator=generator).tolist() for size in sizes]
    count = sum(sizes)
    external = (torch.rand(count, generator=generator) < 0.3).nonzero().squeeze(1).tolist()
    divergence = (torch.randn(count, generator=generator) * 2).tolist()
    domains = "".join("AB"[index % 2] for index in range(len(sizes)))
    batch = tasks(rewards, lengths, domains=domains, divergence=divergence, external=external, seed=seed)
    for method, domain, weight in zip(methods, "AB", (1.0, 0.5), strict=True):
        config = {"domains": [domain], "kl_max": kl_max, "task_weight": weight}
        batch = batch.with_advantages(operator("advantage", method, **config)(batch, context()))
    loss = operator("objective", "policy_gradient")(TokenScores(batch.old_logprobs, None), batch, context()).loss
    found = float((loss * token_weights(batch, "constant", 1)).sum())
    expected = sum(
        by_loop(batch, method, domain, kl_max, weight)
        for method, domain, weight in zip(methods, "AB", (1.0, 0.5), strict=True)
    )
    assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["crpg", "crraft"])
def test_other_tasks_keep_what_they_had(name: str) -> None:
    batch = tasks([[0.8, 0.2], [1.0, 0.5]], domains="AB")
    batch = batch.with_advantages(torch.tensor([7.0, 7.0, 3.0, -3.0]))
    assert near(advantages(name, batch, kl_max=9.0, domains=["A"])[2:], [3.0, -3.0])
    assert advantages(name, batch, kl_max=9.0, domains=["C"]) == [7.0, 7.0, 3.0, -3.0]


@pytest.mark.parametrize("reward", [0.3, -0.2, 0.0])
def test_equal_rewards_have_no_gradient_at_all(reward: float) -> None:
    assert advantages("crpg", tasks([[reward] * 3, [reward] * 3]), kl_max=9.0) == [0.0] * 6


def test_the_gradient_of_crpg_is_that_of_trl() -> None:
    """The unmerged CGPOTrainer divides the sum over responses by the tokens of all of them."""
    batch = tasks([[0.9, 0.3], [0.0, 0.6]], [[2, 3], [1, 4]], divergence=[0.5, 2.0, 1.0, -0.5])
    kl_max = 1.5
    logprobs = batch.old_logprobs.clone().requires_grad_()
    sums = torch.stack([part.sum() for part in logprobs.split(batch.lengths.tolist())])
    reference = torch.stack([part.sum() for part in batch.reference_logprobs.split(batch.lengths.tolist())])
    regularizer = torch.clamp(1 - (sums.detach() - reference) / kl_max, min=0)
    judgements = (batch.rewards > 0).float()
    regularised = judgements * batch.rewards * regularizer
    (theirs,) = torch.autograd.grad((-sums * (regularised - regularised.mean())).sum() / batch.num_tokens, logprobs)
    own = batch.with_advantages(operator("advantage", "crpg", kl_max=kl_max)(batch, context()))
    scores = TokenScores(batch.old_logprobs.clone().requires_grad_(), None)
    loss = operator("objective", "policy_gradient")(scores, own, context()).loss
    assert near(gradient(scores, loss * token_weights(own, "tokens", 1)), theirs.tolist(), 1e-6)


# CODPO


def codpo(batch: Batch, scores: TokenScores, **config: Any) -> tuple[Tensor, dict[str, Tensor]]:
    found = operator("objective", "codpo", **config)(scores, batch, context())
    return (found.loss * token_weights(batch, "responses", 1)).sum(), dict(found.metrics)


def test_codpo_by_hand() -> None:
    batch = replace(tasks([[0.8, -0.3, 0.1]], [[2, 1, 1]]), reference_logprobs=torch.tensor([-1.0, -2.0, -3.0, -1.0]))
    scores = TokenScores(torch.tensor([-0.5, -1.0, -4.0, -1.0]), None)
    loss, metrics = codpo(batch, scores, beta=0.5, sft=2.0)
    # h 1.5 against -1: margin .5 * 2.5; the chosen one has -.75 a token
    assert float(loss) == pytest.approx(math.log1p(math.exp(-1.25)) + 2.0 * 0.75, abs=1e-6)
    assert near(metrics["codpo_paired"], [1, 1, 1, 0]) and near(metrics["codpo_margin"], [1.25, 1.25, 1.25, 0])


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([0.7, -0.2, -0.6, 0.9], (3, 2)),  # the violating response with the lowest reward
        ([0.7, 0.2, 0.6, 0.9], (3, 1)),  # none violates: the lowest of all
        ([0.7, 0.7, -0.6, -0.6], (0, 2)),  # of equal ones the first
        ([-0.7, -0.2, -0.6, 0.0], None),  # nothing satisfies
        ([0.7, 0.7, 0.7, 0.7], None),  # nothing to tell apart
    ],
)
def test_which_responses_make_a_pair(rewards: list[float], expected: tuple[int, int] | None) -> None:
    batch = tasks([rewards])
    assert pairs_of(batch, CodpoConfig()) == ([expected] if expected else [])
    aside = tasks([[*rewards, 1.0]], external=[4])
    assert pairs_of(aside, CodpoConfig()) == pairs_of(batch, CodpoConfig()), "an external response is in no pair"
    assert pairs_of(batch, CodpoConfig(domains=("B",))) == []


def codpo_by_loop(batch: Batch, scores: TokenScores, beta: float, sft: float) -> float:
    """The mean over pairs, from lists of numbers; TRL's formula with the pair as the paper has it."""
    new, ref = rows_of(batch, scores.logprobs.detach()), rows_of(batch, batch.reference_logprobs)
    losses = []
    for group in range(batch.num_prompts):
        rows = [row for row, own in enumerate(batch.group.tolist()) if own == group]
        rewards = [float(batch.rewards[row]) for row in rows]
        if max(rewards) <= 0 or max(rewards) == min(rewards):
            continue
        violating = [row for row in rows if float(batch.rewards[row]) < 0]
        chosen = max(rows, key=lambda row: float(batch.rewards[row]))
        rejected = min(violating or rows, key=lambda row: float(batch.rewards[row]))
        logits = beta * (sum(new[chosen]) - sum(new[rejected]) - sum(ref[chosen]) + sum(ref[rejected]))
        losses.append(math.log1p(math.exp(-logits)) - sft / len(new[chosen]) * sum(new[chosen]))
    return sum(losses) / max(1, len(losses))


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=st.integers(0, 50), sft=st.sampled_from([0.0, 5.0])
)
def test_codpo_is_the_mean_over_pairs_of_a_loop(sizes: list[int], seed: int, sft: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    rewards = [(torch.randint(-3, 4, (size,), generator=generator) / 4).tolist() for size in sizes]
    lengths = [torch.randint(1, 5, (size,), generator=generator).tolist() for size in sizes]
    batch = tasks(rewards, lengths, divergence=torch.randn(sum(sizes), generator=generator).tolist(), seed=seed)
    scores = noisy_scores(batch, seed=seed)
    loss, _ = codpo(batch, scores, beta=0.3, sft=sft)
    assert float(loss.detach()) == pytest.approx(codpo_by_loop(batch, scores, 0.3, sft), abs=1e-4)


def test_other_tasks_have_the_policy_gradient_beside_pairs() -> None:
    batch = tasks([[0.8, -0.3], [0.4, 0.1]], [[2, 1], [3, 2]], domains="AB")
    batch = batch.with_advantages(torch.tensor([9.0, 9.0, 0.5, -0.5]))
    scores = noisy_scores(batch)
    found, _ = codpo(batch, scores, domains=["A"], task_weight=2.0)
    alone, _ = codpo(batch.select(torch.tensor([0, 1])), TokenScores(scores.logprobs[:3], None))
    sums = [sum(row) for row in rows_of(batch, scores.logprobs.detach())]
    assert float(found.detach()) == pytest.approx(
        2.0 * float(alone.detach()) - (0.5 * sums[2] - 0.5 * sums[3]) / 4, abs=1e-5
    )


def test_without_a_pair_there_is_no_gradient() -> None:
    batch = tasks([[-0.8, -0.3], [0.4]])
    scores = noisy_scores(batch)
    loss, metrics = codpo(batch, scores)
    assert (
        float(loss.detach()) == 0.0 and gradient(scores, loss).abs().sum() == 0 and metrics["codpo_paired"].sum() == 0
    )


def test_forward_passes_of_any_size_give_one_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = slots_of("grpo", objective={"name": "codpo", "domains": ["A"]}, regularizers=[])
    batch = tasks([[0.5, -0.5], [0.9, 0.1], [-0.1, -0.2], [1.0, 0.3]], [[3, 5], [2, 4], [6, 1], [2, 2]], domains="AABA")
    batch = batch.with_advantages(torch.ones(8))
    whole, metrics = gradients(learner(tiny(), slots), batch, monkeypatch)
    for micro in (1, 12):
        found, same = gradients(learner(tiny(), slots, micro=micro), batch, monkeypatch)
        assert_equal(found, whole, 1e-5)
        assert same["loss"] == pytest.approx(metrics["loss"], abs=1e-5)


CONSTRAINED: dict[str, Any] = {
    "method": "reinforce",
    "reference": "initial",
    "rewards": [{"name": "pattern", "pattern": "[a-m]"}, {"name": "verifier", "weight": 1.0}],
    "combine": {"name": "constrained_rank", "by": {"verifier": 1.0}},
    "optimizer": {"peak_learning_rate": 1e-2},
}


@pytest.mark.parametrize(
    "how",
    [
        {"advantages": [{"name": "crpg", "kl_max": 20}]},
        {"advantages": [{"name": "crraft", "kl_max": 20}], "guidance": "baseline_answers"},
        {"objective": {"name": "codpo"}, "filters": [{"name": "score_rank", "strategy": "bw"}]},
        {
            "advantages": [{"name": "crpg", "kl_max": 20, "domains": ["A"]}],
            "objective": {"name": "codpo", "domains": ["B"]},
        },
    ],
    ids=["crpg", "crraft", "codpo", "both"],
)
def test_a_step_learns_to_satisfy_the_constraint(how: dict[str, Any], tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"steps": 16, "prompts_per_step": 8, "group_size": 8}
    loop = loop_of(write_model(tmp_path / "policy"), **CONSTRAINED, **how, **sizes)
    shares = [loop.step()["reward_verifier"] for _ in range(16)]
    assert sum(shares[-4:]) > sum(shares[:4]) + 0.2


@pytest.mark.parametrize(
    ("slot", "given_", "said"),
    [
        ("advantage", {"name": "crpg"}, "kl_max"),
        ("advantage", {"name": "crraft", "kl_max": 0}, "kl_max"),
        ("advantage", {"name": "crpg", "kl_max": 1, "task_weight": 0}, "task_weight"),
        ("objective", {"name": "codpo", "beta": 0}, "beta"),
    ],
)
def test_settings_out_of_range_are_refused(slot: str, given_: dict[str, Any], said: str) -> None:
    with pytest.raises((InputError, ValidationError), match=said):
        operator(slot, **given_)
