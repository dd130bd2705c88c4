"""DARS' and SELF's rollouts and EGSR's guidance, with a real policy and collector."""

from __future__ import annotations

import string
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.batch.batch import RIGHT, Batch, Prompt
from components.rl.component import COMPONENT
from components.rl.operators.rollouts.hardness import HardnessConfig, target_responses
from components.rl.params import RLParams
from components.rl.step.collector import Collector
from components.rl.step.ledger import PassRates
from components.rl.step.scoring import frozen_logprobs
from components.rl.step.settings import StepSettings
from components.runtime.ledger.fingerprint import fingerprint
from components.tasks.item import Item
from tests.rl.build import context, operator

# N(u)

TABLES = {"equal": [32, 18, 11, 9, 8, 8, 8, 8, 8], "hardness": [48, 24, 12, 9, 8, 8, 8, 8, 8]}
"""Released trainer, resample_func1 and resample_func2, at u = 0, 1/8 ... 8/8."""


@pytest.mark.parametrize("schedule, top", [("equal", 32), ("hardness", 48)])
def test_targets_are_the_released_tables(schedule: str, top: int) -> None:
    config = HardnessConfig(schedule=schedule, max_responses=top)
    assert [target_responses(right / 8, 8, config) for right in range(9)] == TABLES[schedule]


@given(st.integers(4, 64), st.data())
def test_equal_treatment_gives_every_accuracy_the_same_cumulative_advantage(first: int, data: st.DataObject) -> None:
    u = data.draw(st.integers(1, (first - 1) // 2)) / first
    number = target_responses(u, first, HardnessConfig(max_responses=10_000))
    # 2 N u (1 - u) against 2 first / 4 at one half; rounding N moves it by at most u (1 - u)
    assert abs(2 * number * u * (1 - u) - first / 2) <= u * (1 - u) + 1e-9
    assert first <= number <= target_responses(u, first, HardnessConfig(schedule="hardness", max_responses=10_000))


def test_targets_keep_their_bounds() -> None:
    assert target_responses(0.0, 8, HardnessConfig(max_responses=4)) == 8
    assert target_responses(1 / 64, 64, HardnessConfig(max_responses=100)) == 100
    assert target_responses(0.5, 8, HardnessConfig()) == 8


# a policy of letters


@pytest.fixture(scope="module")
def policy() -> Policy:
    tokenizer = train_tokenizer([string.ascii_letters + " :"], {}, TokenizerConfig(phrases=False))
    made = new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0)
    with torch.no_grad():
        made.module.embedding.mul_(12)  # far from uniform, so that some answers are frequent
    return made


SETTINGS = StepSettings(prompts_per_step=3, group_size=8, max_new_tokens=3, temperature=1.0)


def collector(policy: Policy) -> Collector:
    return Collector(
        policy,
        SETTINGS,
        generator=torch.Generator().manual_seed(0),
        ledger=PassRates(),
        reward=lambda batch: (batch.outcomes == RIGHT).float(),
        max_tokens=200,
    )


def pool_of(policy: Policy, answers: list[str], verifier: str = "exact") -> list[Prompt]:
    items = [
        Item(id=f"p{i}", domain="A", prompt=f"letter {chr(97 + i)}", answer=answer, verifier=verifier)
        for i, answer in enumerate(answers)
    ]
    tokens = encode_prompts(policy.tokenizer, [item.prompt for item in items])
    return [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]


def texts_of(batch: Batch, group: int) -> list[str]:
    return [text for text, own in zip(batch.texts, batch.group.tolist(), strict=True) if own == group]


def frequent(policy: Policy) -> list[str]:
    """Return, for each of three prompts, an answer that the policy gives now and then."""
    drawn = collector(policy).draw(pool_of(policy, ["", "", ""]), 200)
    return [max(set(texts_of(drawn, group)), key=texts_of(drawn, group).count) for group in range(3)]


# DARS


def test_each_prompt_gets_what_its_first_responses_ask_for(policy: Policy) -> None:
    pool = pool_of(policy, [*frequent(policy)[:2], "never"])
    made = collector(policy)
    first = made.outcomes(collector(policy).draw(pool, 8)).view(3, 8) == RIGHT
    batch = operator("rollout", "hardness", max_responses=20)(pool, made, context(pool=pool, group_size=8))
    expected = [target_responses(float(row.float().mean()), 8, HardnessConfig(max_responses=20)) for row in first]
    assert torch.bincount(batch.group).tolist() == expected and expected[2] == 20
    assert [prompt.item.id for prompt in batch.prompts] == ["p0", "p1", "p2"]
    assert not made.seen and len(made._ledger) == 0  # the loop scores and counts the whole
    scored = made.score(batch)
    assert [made._ledger.get(f"p{i}").num_samples for i in range(3)] == expected
    # one mean over all N(u): advantages of a group sum to 0
    advantages = operator("advantage", "group_mean")(scored, context())
    assert torch.allclose(scored.group_sum(advantages), torch.zeros(len(advantages)), atol=1e-5)


# SELF


def accepting(policy: Policy, *all_or_none: bool) -> list[Prompt]:
    """Return prompts that accept whatever the policy says, or nothing of it."""
    found = []
    for prompt, everything in zip(pool_of(policy, ["z"] * len(all_or_none), "regex"), all_or_none, strict=True):
        data = {"pattern": r"(?s).*" if everything else "z{9}|z"}
        found.append(replace(prompt, item=prompt.item.model_copy(update={"data": data})))
    return found


def test_only_prompts_that_greedy_decoding_fails_get_samples(policy: Policy) -> None:
    pool, made = accepting(policy, False, True, False), collector(policy)
    now = context(pool=pool, group_size=8)
    batch = operator("rollout", "greedy_failures")(pool, made, now)
    assert [prompt.item.id for prompt in batch.prompts] == ["p0", "p2"]
    assert torch.bincount(batch.group).tolist() == [8, 8]
    assert now.metrics == {"greedy_failures": 2 / 3}
    assert (made.num_probes, len(made._ledger)) == (3, 0) and not made.seen
    same = collector(policy).draw([pool[0], pool[2]], 8)  # greedy decoding takes nothing from the random stream
    assert batch.texts == same.texts and torch.equal(batch.old_logprobs, same.old_logprobs)


def test_a_step_whose_prompts_are_all_answered_has_no_responses(policy: Policy) -> None:
    pool, made = accepting(policy, True, True, True), collector(policy)
    now = context(pool=pool, group_size=8)
    batch = made.score(operator("rollout", "greedy_failures")(pool, made, now))
    assert (batch.num_responses, batch.num_prompts, now.metrics) == (0, 0, {"greedy_failures": 0.0})
    with pytest.raises(ValidationError, match="'greedy_failures' reads outcomes"):
        RLParams.model_validate({"rollout": "greedy_failures", "labels": "ignored", "rewards": ["self_certainty"]})


# EGSR


def guided(policy: Policy, answers: list[str], **config: object) -> tuple[Batch, Batch, Collector]:
    made = collector(policy)
    batch = made.score(made.draw(pool_of(policy, answers), 8))
    config = {"template": "{prompt}:{solution}", "num_samples": 40} | config
    helped = operator("guidance", "reformulate", **config)(batch, made, context(group_size=8))
    return batch, helped, made


def hidden_answers(policy: Policy) -> list[str]:
    """Return for each prompt an answer that the policy can give, but does not among its first 8."""
    pool = pool_of(policy, ["", "", ""])
    first, many = collector(policy).draw(pool, 8), collector(policy).draw(pool, 600)
    found = []
    for group in range(3):
        texts = [text for text in texts_of(many, group) if text not in texts_of(first, group)]
        found.append(max(set(texts), key=texts.count))
    return found


@pytest.mark.parametrize("ratio", ["original", "guided"])
def test_right_rewritings_take_places_in_groups_that_fail(policy: Policy, ratio: str) -> None:
    solved = texts_of(collector(policy).draw(pool_of(policy, ["", "", ""]), 8), 0)[0]
    batch, helped, made = guided(policy, [solved, *hidden_answers(policy)[1:]], num_samples=400, ratio=ratio)
    assert helped.group_sizes.tolist() == [8] * 24
    assert [int(helped.external[helped.group == group].sum()) for group in range(3)] == [0, 4, 4]
    assert bool((helped.outcomes[helped.external] == RIGHT).all())
    assert texts_of(helped, 0) == texts_of(batch, 0) and texts_of(helped, 1)[:4] == texts_of(batch, 1)[:4]
    assert sum(entry.num_samples for entry in made._ledger) == 24  # rewritings are in no statistic of the policy
    new = helped.select(helped.external)
    assert [prompt.tokens for prompt in new.prompts] == [prompt.tokens for prompt in batch.prompts[1:]]
    own = frozen_logprobs(policy, new, temperature=1.0, max_tokens=200)
    assert torch.allclose(new.old_logprobs, own, atol=1e-5) == (ratio == "original")
    assert not torch.allclose(new.behaviour_logprobs, own, atol=1e-3)


def test_nothing_changes_where_no_rewriting_is_right_or_no_group_fails(policy: Policy) -> None:
    batch, helped, made = guided(policy, ["never"] * 3)
    assert helped is batch and len(made.seen) == 2
    solved = [texts_of(collector(policy).draw(pool_of(policy, ["", "", ""]), 8), group)[0] for group in range(3)]
    batch, helped, made = guided(policy, solved)
    assert helped is batch and len(made.seen) == 1


def test_verbatim_puts_the_experts_own_text_into_the_group(policy: Policy) -> None:
    batch, helped, _ = guided(policy, ["Q", "Q", "Q"], form="verbatim", expert={"name": "gold", "markup": False})
    assert [texts_of(helped, group).count("Q") for group in range(3)] == [1, 1, 1]
    new = helped.select(helped.external)
    assert new.texts == ("Q",) * 3 and torch.equal(new.old_logprobs, new.behaviour_logprobs)
    assert helped.num_responses == batch.num_responses


def test_mistakes_in_the_guidance_are_named_and_the_expert_is_part_of_the_fingerprint() -> None:
    with pytest.raises(InputError, match="unknown demonstrator operator 'gould'"):
        operator("guidance", "reformulate", expert="gould")
    with pytest.raises(OperatorRefused, match=r"needs \{prompt\} and \{solution\}"):
        operator("guidance", "reformulate", template="{prompt}")
    with pytest.raises(OperatorRefused, match="less than 1"):  # a whole group of right answers has no advantage
        operator("guidance", "reformulate", replace_share=1.0)
    params = RLParams.model_validate({"guidance": {"name": "reformulate", "expert": "chain_sum_trace"}})
    assert "components/tasks/demonstrators/chain_sum_trace.py" in fingerprint(COMPONENT, params, {}, 0).parts["code"]
