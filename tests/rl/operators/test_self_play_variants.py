"""SvS's rollout with scripted draws, by hand; with a real policy, against counting; and its reward."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.operators import OperatorMisfit, OperatorRefused
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.batch.batch import FAILED, RIGHT, UNSCORED, WRONG, Batch, Prompt, new_batch
from components.rl.params import RLParams
from components.rl.step.collector import Collector
from components.rl.step.ledger import PassRates
from components.rl.step.settings import StepSettings
from components.tasks.item import Item
from components.tasks.verify import verify
from tests.rl.build import batch_of, context, near, operator

TEMPLATE = "write {solution}"


class Scripted:
    """Draws texts from a table: prompt -> its responses in order; "..." at the end means cut."""

    def __init__(self, table: dict[str, list[str]]) -> None:
        self.table, self.asked = table, []

    def draw(self, prompts: Sequence[Prompt], num_samples: int) -> Batch:
        self.asked += [(prompt.item.prompt, num_samples) for prompt in prompts]
        texts = [text for prompt in prompts for text in self.table[prompt.item.prompt][:num_samples]]
        count = len(texts)
        return new_batch(
            prompts,
            texts,
            group=torch.arange(len(prompts)).repeat_interleave(num_samples),
            lengths=torch.ones(count, dtype=torch.long),
            finished=torch.tensor([not text.endswith("...") for text in texts]),
            tokens=torch.zeros(count, dtype=torch.long),
            old_logprobs=torch.zeros(count),
            entropies=torch.zeros(count),
        )

    def outcomes(self, batch: Batch) -> torch.Tensor:
        items = [batch.prompts[group].item for group in batch.group.tolist()]
        return torch.tensor([self.outcome(item, text) for item, text in zip(items, batch.texts, strict=True)])

    def outcome(self, item: Item, text: str) -> int:
        """The text "broken" is one that the verifier cannot judge."""
        if item.is_unlabelled or text == "broken":
            return UNSCORED if item.is_unlabelled else FAILED
        return RIGHT if verify(item, text).right else WRONG

    def encode_prompt(self, text: str) -> list[int]:
        return [1] * len(text)


def prompt_of(text: str, answer: str) -> Prompt:
    item = Item(id=text, domain="d", prompt=text, answer=answer, verifier="exact", data={"k": 1})
    return Prompt(item, (5, 6))


def play(table: dict[str, list[str]], answers: dict[str, str], **config: Any) -> tuple[Batch, Scripted, Any]:
    collector = Scripted(table)
    bound = operator("rollout", "self_play_variants", **{"template": TEMPLATE, "num_variants": 3} | config)
    told = context(group_size=4)
    batch = bound([prompt_of(text, answer) for text, answer in answers.items()], collector, told)
    return batch, collector, told


ANSWERS = {"easy": "a", "some": "b", "never": "c"}
TABLE = {
    "easy": ["a", "a", "a", "b"],
    "some": ["b", "<answer>b", "x", "y"],
    "never": ["x", "x", "x", "x"],
    "write b": ["new", "some", "new"],
    "write <answer>b": ["cut...", "new", "other {solution}"],
    "new": ["b", "x", "x", "x"],
    "other {solution}": ["b", "b", "b", "b"],
}


class TestByHand:
    def test_only_groups_in_the_range_are_varied_and_each_problem_is_solved_once(self) -> None:
        batch, collector, told = play(TABLE, ANSWERS)
        assert collector.asked == [
            ("easy", 4),
            ("some", 4),
            ("never", 4),
            ("write b", 3),
            ("write <answer>b", 3),
            ("new", 4),
            ("other {solution}", 4),
        ]
        assert [prompt.item.domain for prompt in batch.prompts] == [*"ddd", *["writing"] * 2, *["variants"] * 2]
        assert batch.group_sizes.tolist() == [4] * 12 + [3] * 6 + [4] * 8
        assert batch.extras["writing_s"].tolist() == [0] * 12 + [1] * 6 + [0] * 8
        rates = [0.25, 0, 0.25, 0, 0.25, 1.0]  # a copy of `some`, and a text that was cut, count as never solved
        assert near(batch.extras["variant_rate_s"], [0] * 12 + rates + [0] * 8)
        assert told.metrics == {"variants_written": 6.0, "variants_solved": 2.0, "variant_pass_rate": 0.625}

    def test_a_problem_has_the_verifier_and_answer_of_the_one_it_varies(self) -> None:
        batch, _, _ = play(TABLE, ANSWERS)
        new = batch.prompts[5].item
        assert (new.prompt, new.answer, new.verifier, new.data) == ("new", "b", "exact", {"k": 1})
        assert (
            all(batch.prompts[at].item.is_unlabelled for at in (3, 4)) and len({p.item.id for p in batch.prompts}) == 7
        )

    def test_copies_are_solved_where_they_are_allowed(self) -> None:
        batch, collector, _ = play(TABLE, ANSWERS, copies=True)
        assert collector.asked[-3:] == [("new", 4), ("some", 4), ("other {solution}", 4)]
        assert near(batch.extras["variant_rate_s"][12:18], [0.25, 0.5, 0.25, 0, 0.25, 1.0])

    def test_fewer_solutions_and_fewer_problems(self) -> None:
        batch, collector, _ = play(TABLE, ANSWERS, max_solutions=1)
        assert ("write <answer>b", 3) not in collector.asked and batch.num_prompts == 5
        batch, collector, told = play(TABLE, ANSWERS, max_problems=1)
        solved = [prompt.item.prompt for prompt in batch.prompts if prompt.item.domain == "variants"]
        assert len(solved) == 1 and told.metrics["variants_solved"] == 1
        left = {"new": 3, "other {solution}": 1}[solved[0]] + 2  # rows of the other problem go, copies and cuts stay
        assert int(batch.extras["writing_s"].sum()) == left

    @pytest.mark.parametrize("answers", [{"easy": "a", "never": "c"}, {"never": "c"}])
    def test_without_a_group_in_the_range_it_is_a_plain_group(self, answers: dict[str, str]) -> None:
        batch, collector, told = play(TABLE, answers)
        assert [name for name, _ in collector.asked] == list(answers)
        assert not batch.extras["writing_s"].any() and told.metrics["variants_written"] == 0

    def test_where_nothing_usable_was_written_writers_stay_without_a_reward(self) -> None:
        table = {**TABLE, "write b": ["", " ", "some"], "write <answer>b": ["...", "...", "..."]}
        batch, _, told = play(table, {"some": "b"})
        assert batch.num_prompts == 3 and not batch.extras["variant_rate_s"].any()
        assert "variant_pass_rate" not in told.metrics

    def test_a_template_without_a_solution_and_a_range_upside_down_are_refused(self) -> None:
        with pytest.raises(OperatorRefused, match=r"needs \{solution\} once"):
            operator("rollout", "self_play_variants", template="write")
        with pytest.raises(OperatorRefused, match=r"low 0.6 is above high 0.5"):
            operator("rollout", "self_play_variants", low=0.6)


class TestReward:
    @given(st.lists(st.integers(0, 8), min_size=1, max_size=12), st.data())
    def test_solutions_by_outcome_and_problems_by_the_band(self, rates: list[int], data: st.DataObject) -> None:
        right = data.draw(st.lists(st.booleans(), min_size=len(rates), max_size=len(rates)))
        writes = data.draw(st.lists(st.booleans(), min_size=len(rates), max_size=len(rates)))
        batch = batch_of([[float(one) for one in right]])
        batch = batch.with_extras(
            writing_s=torch.tensor(writes).float(), variant_rate_s=torch.tensor([rate / 8 for rate in rates])
        )
        told = context()
        found = operator("reward", "variant_band", wrong=-1.0)(batch, told).tolist()
        pairs = zip(rates, right, writes, strict=True)
        good = [1 <= rate <= 5 if writer else is_right for rate, is_right, writer in pairs]  # 1/8 and 5/8
        assert found == [1.0 if one else -1.0 for one in good]
        accepted = [one for one, writer in zip(good, writes, strict=True) if writer]
        assert told.metrics.get("variants_accepted", 0.0) == pytest.approx(sum(accepted) / max(len(accepted), 1))

    def test_a_problem_whose_solutions_the_verifier_cannot_judge_has_no_reward(self) -> None:
        batch, _, told = play(TABLE | {"new": ["broken"] * 4, "other {solution}": ["b", "broken", "x", "x"]}, ANSWERS)
        rates = [math.nan, 0, math.nan, 0, math.nan, 1 / 3]
        found = batch.extras["variant_rate_s"][12:18]
        assert torch.equal(found.isnan(), torch.tensor(rates).isnan()) and found[5] == pytest.approx(1 / 3)
        assert told.metrics["variant_pass_rate"] == pytest.approx(1 / 3)
        rewards = operator("reward", "variant_band")(batch, told)
        assert torch.equal(rewards.isnan(), batch.extras["variant_rate_s"].isnan())
        assert told.metrics["variants_accepted"] == pytest.approx(1 / 3)  # of the three that have a pass rate

    def test_it_needs_the_rollout_and_a_band(self) -> None:
        with pytest.raises((ValidationError, OperatorMisfit), match="self_play_variants"):
            RLParams.model_validate({"method": "grpo", "steps": 1, "rewards": ["variant_band"]}).phase_slots()
        with pytest.raises(OperatorRefused, match=r"low 0.7 is above high 0.2"):
            operator("reward", "variant_band", low=0.7, high=0.2)


def test_a_real_policy_agrees_with_counting() -> None:
    tokenizer = train_tokenizer([string.ascii_letters + " :"], {}, TokenizerConfig(phrases=False))
    policy = new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0)
    with torch.no_grad():
        policy.module.embedding.mul_(12)
    collector = Collector(
        policy,
        StepSettings(prompts_per_step=6, group_size=8, max_new_tokens=3, temperature=1.0),
        generator=torch.Generator().manual_seed(0),
        ledger=PassRates(),
        reward=lambda batch: torch.zeros(batch.num_responses),
        max_tokens=400,
    )
    items = [
        Item(id=f"p{i}", domain="d", prompt=f"letter {i}", answer=".", verifier="regex", data={"pattern": f".*[{i}].*"})
        for i in ["a-g", "h-m", "n-t", "u-z", "A-M", "N-Z"]
    ]
    tokens = encode_prompts(tokenizer, [item.prompt for item in items])
    prompts = [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]
    told = context(group_size=8, collector=collector)
    batch = operator("rollout", "self_play_variants", template=TEMPLATE, num_variants=24)(prompts, collector, told)
    outcomes = collector.outcomes(batch)
    rate_of: dict[tuple[str, str], float] = {}
    for at, prompt in enumerate(batch.prompts):
        rows = batch.group == at
        if prompt.item.domain == "variants":
            rate_of[prompt.item.prompt, prompt.item.data["pattern"]] = float((outcomes[rows] == RIGHT).double().mean())
    written = [row for row in range(batch.num_responses) if batch.extras["writing_s"][row]]
    assert written and rate_of
    for row in written:
        text = batch.texts[row].strip()
        known = [rate for (words, _), rate in rate_of.items() if words == text]
        expected = known if batch.finished[row] and known else [0.0]
        assert any(abs(float(batch.extras["variant_rate_s"][row]) - rate) < 1e-6 for rate in expected)
    scored = collector.score(batch)
    assert scored.num_responses == batch.num_responses and "writing_s" in scored.extras
