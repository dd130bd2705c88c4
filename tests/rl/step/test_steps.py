"""Steps and pairs: cuts, values and critical steps by hand, and pairs drawn from a policy that is known."""

from __future__ import annotations

import string
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.batch.batch import RIGHT, WRONG, Batch, Prompt
from components.rl.batch.joining import regroup
from components.rl.step.collector import Collector
from components.rl.step.ledger import PassRates
from components.rl.step.settings import StepSettings
from components.rl.step.steps import StepsConfig, complete, critical_step, step_ends, value_steps
from components.tasks.item import Item
from tests.rl.build import context, near, operator, rows_of


def test_a_step_ends_behind_its_separator() -> None:
    assert step_ends(["a", " ", "b", "c", " ", "d", ""], " ") == (2, 5, 7)
    assert step_ends(["a", " ", "b", " "], " ") == (2, 4)
    assert step_ends(["a", "b"], "\n") == (2,) and step_ends([" "], " ") == (1,)
    assert step_ends(["4", "=", "4 ", "<answer>", "4"], r"\s|<answer>") == (3, 4, 5)
    with pytest.raises(ValidationError, match="not a regular expression"):
        StepsConfig(separator="(")


def test_the_critical_step_by_hand() -> None:
    assert critical_step([0.5, 0.6, 0.1, 0.0], 0.2) == 1
    assert critical_step([0.5, 0.6, 0.3, 0.0], 0.2) == 2  # -0.3 ends too high, -0.3 at the end does not
    assert critical_step([0.0, 0.0, 0.0], 0.2) is None  # nothing was lost
    assert critical_step([0.4, 0.2, 0.0], 0.2) == 0  # the earliest of equal ones
    assert critical_step([1.0, float("nan"), 0.0], 0.2) is None


@given(st.lists(st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75, 1.0]), min_size=2, max_size=7))
def test_the_critical_step_is_the_smallest_advantage_among_low_ends(values: list[float]) -> None:
    steps = [(values[i + 1] - values[i], i) for i in range(len(values) - 1) if values[i + 1] <= 0.2]
    losing = [pair for pair in steps if pair[0] < 0]
    assert critical_step(values, 0.2) == (min(losing)[1] if losing else None)


@pytest.fixture(scope="module")
def policy() -> Policy:
    tokenizer = train_tokenizer([string.ascii_lowercase], {}, TokenizerConfig(phrases=False))
    return new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0)


class Scripted(Collector):
    """Draws as told: a completion of a prefix is the next one of those listed for its text."""

    script: dict[str, list[str]]

    def draw(self, prompts: Any, num_samples: int, *, prefixes: Any = None, **_: Any) -> Batch:
        rows = []
        for row, prefix in enumerate(prefixes):
            (text,) = self._texts([prompts[row // num_samples]], [prefix])
            rows.append(text + self.script[text].pop(0))
        return regroup([self.responses([prompts[i // num_samples]], [row]) for i, row in enumerate(rows)])


def scripted(policy: Policy, script: dict[str, list[str]]) -> Scripted:
    made = Scripted(
        policy,
        StepSettings(prompts_per_step=1, group_size=2, max_new_tokens=12, temperature=1.0),
        generator=torch.Generator().manual_seed(0),
        ledger=PassRates(),
        reward=lambda batch: (batch.outcomes == RIGHT).float(),
        max_tokens=99,
    )
    made.script = {key: list(rows) for key, rows in script.items()}
    return made


def prompts_of(policy: Policy, count: int = 1) -> list[Prompt]:
    items = [Item(id=f"p{i}", domain="A", prompt=f"q {i}", answer="a b x", verifier="exact") for i in range(count)]
    tokens = encode_prompts(policy.tokenizer, [item.prompt for item in items])
    return [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]


def scored(made: Collector, prompts: list[Prompt], texts: list[str]) -> Batch:
    return regroup([made.score(made.responses([prompts[0]], [text], external=False)) for text in texts])


def test_values_of_a_walk_and_their_advantages(policy: Policy) -> None:
    made = scripted(policy, {"a ": ["b x", "b x", "b y", "z"], "a c ": ["x", "y", "y", "y"], "a b ": ["x"] * 3 + ["y"]})
    batch = scored(made, prompts_of(policy), ["a c y", "a b x", "y"])
    config = StepsConfig(separator=" ", num_completions=4)
    (first,), drawn = value_steps(batch, [0], made, config)
    assert first.ends == (2, 4, 6)  # its end mark included
    assert near(first.values, [1 / 3, 0.5, 0.0, 0.0]) and near(first.advantages, [1 / 6, -0.5, 0.0])
    assert drawn is not None and drawn.num_responses == 8 and made.num_probes == 8
    assert sum(drawn.outcomes.eq(RIGHT).tolist()) == 2
    made.script["a "] = ["b x"] * 4 + ["y"] * 4
    made.script["a c "] = ["y"] * 4
    found = operator("advantage", "step_values", separator=" ", num_completions=4)(batch, context(collector=made))
    rows = rows_of(batch, found)
    assert near(rows[0], [2 / 3] * 2 + [-1.0] * 2 + [0.0] * 2)
    assert near(rows[1], [-1 / 3] * 2 + [0.75] * 2 + [0.25] * 2)
    assert near(rows[2], [-1 / 3] * 2)
    sums = [sum(dict.fromkeys(row)) for row in rows]  # steps add up to outcome - pass rate
    assert near(sums, [-1 / 3, 2 / 3, -1 / 3])


def pairs_of(made: Scripted, batch: Batch, **config: object) -> Batch:
    settings = {"separator": " ", "num_completions": 2, **config}
    return operator("guidance", "critical_pairs", **settings)(batch, made, context(collector=made))


def test_a_pair_parts_before_the_critical_step(policy: Policy) -> None:
    # "a " is worth 1/2, "a c " nothing: step 2 is critical, and the pair shares "a "
    made = scripted(policy, {"a ": ["b x", "z"], "a c ": ["y", "y"], "a b ": ["x", "x"]})
    batch = scored(made, prompts_of(policy), ["a c y", "a b x"])
    found = pairs_of(made, batch)
    assert found.texts == ("a b x", "a c y") and found.outcomes.tolist() == [RIGHT, WRONG]
    assert found.group.tolist() == [0, 0] and found.num_prompts == 1
    assert rows_of(found, found.extras["suffix_n"].int()) == [[0, 0, 1, 1, 1, 1]] * 2
    assert made.num_probes == 6  # two prefixes of the wrong one, and the first step of the only candidate


def test_the_chosen_continuation_has_the_best_first_step(policy: Policy) -> None:
    # at the first step the candidates are the group's own right responses; "aa " completes better than "a "
    script = {"a c ": ["y", "y"], "z ": ["y", "y"], "a ": ["y", "b x"], "a b ": ["y", "y"]}
    made = scripted(policy, script)
    prompts = prompts_of(policy)
    prompts = [replace(p, item=p.item.model_copy(update={"data": {"aliases": ["k b x"]}})) for p in prompts]
    made.script["k "] = ["b x", "b x"]
    batch = scored(made, prompts, ["z y", "a b x", "k b x"])
    found = pairs_of(made, batch)
    assert found.texts == ("k b x", "z y") and bool(found.extras["suffix_n"].all())
    made.script = {key: list(rows) for key, rows in script.items()}
    assert pairs_of(made, batch, chosen="first").texts == ("a b x", "z y")


def test_without_a_critical_step_or_a_right_response_there_is_no_pair(policy: Policy) -> None:
    made = scripted(policy, {"a ": ["y", "y"]})
    nothing_lost = scored(made, prompts_of(policy), ["a y", "y"])
    found = pairs_of(made, nothing_lost)
    assert found.num_responses == found.num_prompts == found.num_tokens == 0
    all_right = scored(made, prompts_of(policy), ["a b x"])
    assert pairs_of(made, all_right).num_responses == 0


def test_the_plain_pairs_share_nothing_and_are_at_most_so_many(policy: Policy) -> None:
    made = scripted(policy, {})
    batch = scored(made, prompts_of(policy), ["a b x", "y", "a y", "z"])
    found = pairs_of(made, batch, part="start", per_prompt=2)
    assert found.texts == ("a b x", "y", "a b x", "a y") and found.group.tolist() == [0, 0, 1, 1]
    assert bool(found.extras["suffix_n"].all()) and [p.item.id for p in found.prompts] == ["p0", "p0"]
    assert pairs_of(made, batch, part="start").texts == pairs_of(made, batch, part="start").texts


def test_completions_begin_with_their_prefix_and_stay_out_of_the_ledger(policy: Policy) -> None:
    ledger = PassRates()
    made = Collector(
        policy,
        StepSettings(prompts_per_step=1, group_size=2, max_new_tokens=5, temperature=1.0),
        generator=torch.Generator().manual_seed(0),
        ledger=ledger,
        reward=lambda batch: batch.rewards,
        max_tokens=99,
    )
    prompts = prompts_of(policy, 2)
    drawn, shares = complete(prompts, [[7, 8], []], made, 3)
    assert [row[:2].tolist() for row in drawn.tokens.split(drawn.lengths.tolist())][:3] == [[7, 8]] * 3
    assert shares == [0.0, 0.0] and made.num_probes == 6
    assert not made.seen and ledger.get("p0") is None
