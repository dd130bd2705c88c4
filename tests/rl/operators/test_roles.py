"""Rollout roles: scripted turns by hand, against walking the tree, and with real models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.rl.batch.batch import Batch, Prompt
from components.tasks.item import Item
from tests.judges.scripted import Scripted as Partner
from tests.rl.build import context, operator
from tests.rl.operators.test_self_play_variants import Scripted
from tests.rl.tiny_loop import loop_of, write_model

ACTOR = {"role": "actor", "by": "partner", "temperature": 0.7}
CRITIC = {"role": "critic", "question": "check {prompt} {actor}", "judges": "actor", "words": ["good", "bad"]}
REVISER = {"role": "reviser", "by": "partner", "question": "mend {prompt} {actor} {critic}", "temperature": 0}
TURNS = [ACTOR, CRITIC, REVISER]


class Policy(Scripted):
    """Scripted draws; greedy ones that are not learned from, too."""

    num_probes = 0
    policy = SimpleNamespace(max_positions=99, tokenizer=None)

    def draw(self, prompts: Sequence[Prompt], num_samples: int, **given: Any) -> Batch:
        self.given = given
        return super().draw(prompts, num_samples)


def play(
    turns: Sequence[Mapping[str, Any]],
    answers: dict[str, str],
    *,
    policy: dict[str, list[str]],
    partner: dict[str, Any] | None = None,
    **config: Any,
) -> tuple[Batch, Policy, Partner, Any]:
    collector, other = Policy(policy), Partner((partner or {}).get, name="sft.model")
    told = context(group_size=2, further={"partners": [other]})
    prompts = [Prompt(item_of(text, answer), (5, 6)) for text, answer in answers.items()]
    return operator("rollout", "roles", turns=turns, **config)(prompts, collector, told), collector, other, told


def item_of(text: str, answer: str) -> Item:
    return Item(id=text, domain="sums", prompt=text, answer=answer, verifier="exact", data={"k": 1})


PARTNER = {
    "1+1": "2",
    "1+2": "4",
    "mend 1+1 2 good": "2",
    "mend 1+1 2 bad": "9",
    "mend 1+2 4 bad": "3",
    "mend 1+2 4 {prompt}": "broken",
}
POLICY = {"check 1+1 2": ["good", "bad"], "check 1+2 4": ["bad", "{prompt}"]}


class TestByHand:
    def test_a_critic_between_two_turns_of_a_frozen_actor(self) -> None:
        batch, policy, partner, told = play(TURNS, {"1+1": "2", "1+2": "3"}, policy=POLICY, partner=PARTNER)
        assert policy.asked == [("check 1+1 2", 2), ("check 1+2 4", 2)]
        assert partner.asked == ["1+1", "1+2", *(text for text in PARTNER if text.startswith("mend"))]
        assert batch.texts == ("good", "bad", "bad", "{prompt}") and batch.group.tolist() == [0, 0, 1, 1]
        items = [prompt.item for prompt in batch.prompts]
        assert [(item.domain, item.answer, item.data) for item in items] == [
            ("critic", "good", {}),
            ("critic", "bad", {}),
        ]
        assert [prompt.of for prompt in batch.prompts] == ["1+1", "1+2"]
        assert batch.extras["before_s"].tolist() == [1, 1, 0, 0]
        after = batch.extras["after_s"]
        assert after[:3].tolist() == [1, 0, 1] and after[3].isnan()  # the last answer could not be verified
        assert told.metrics == {
            "partner_texts": 6.0,
            "questions_too_long": 0.0,
            "actor_right": 0.5,
            "critic_right": 0.5,
            "reviser_right": pytest.approx(2 / 3),
            "reviser_mended": 1.0,
            "reviser_spoiled": 0.5,
        }

    def test_greedy_texts_to_equal_questions_are_drawn_once(self) -> None:
        table = {"check 1+1 2": ["bad", "bad"]}
        batch, _, partner, _ = play(TURNS, {"1+1": "2"}, policy=table, partner=PARTNER)
        assert partner.asked == ["1+1", "mend 1+1 2 bad"] and batch.extras["after_s"].tolist() == [0, 0]

    def test_what_was_refused_or_cannot_be_verified_is_asked_nothing_further(self) -> None:
        batch, policy, _, told = play(TURNS, {"1+1": "2", "1+2": "3"}, policy=POLICY, partner={"1+2": "broken"})
        assert policy.asked == [] and batch.num_responses == 0 and set(batch.extras) == {"before_s", "after_s"}
        assert told.metrics == {"partner_texts": 1.0, "questions_too_long": 0.0}

    def test_one_model_in_all_roles_learns_in_those_that_it_should(self) -> None:
        turns = [
            {"role": "actor"},
            CRITIC | {"learned": False, "temperature": 0},
            {"role": "reviser", "question": "mend {prompt} {actor} {critic}", "samples": 1},
        ]
        table = {
            "1+1": ["2", "3"],
            "check 1+1 2": ["bad"],
            "check 1+1 3": ["bad"],
            "mend 1+1 2 bad": ["3"],
            "mend 1+1 3 bad": ["2"],
        }
        batch, policy, _, told = play(turns, {"1+1": "2"}, policy=table)
        assert batch.texts == ("2", "3", "3", "2") and policy.num_probes == 2
        assert [prompt.item.domain for prompt in batch.prompts] == ["sums", "reviser", "reviser"]
        assert batch.prompts[1].item.data == {"k": 1} and batch.prompts[0].of == ""
        assert batch.extras["before_s"].tolist() == [0, 0, 1, 0]
        assert batch.extras["after_s"].tolist() == [0, 1, 0, 1]
        assert told.metrics["reviser_mended"] == told.metrics["reviser_spoiled"] == 1.0

    def test_partners_are_told_apart_by_place(self) -> None:
        with pytest.raises(InputError, match="turn actor: no model 1 at input partners; there are 1, counted from 0"):
            play([ACTOR | {"model": 1}, CRITIC], {"1+1": "2"}, policy=POLICY)
        first, second = Partner(lambda asked: "4", name="same"), Partner(lambda asked: "2", name="same")
        two = context(further={"partners": [first, second]})
        prompts = [Prompt(item_of("1+1", "2"), (5,))]
        with pytest.raises(InputError, match="turn actor is one of 2 partners'; say which: `model: 0` is the first"):
            operator("rollout", "roles", turns=TURNS)(prompts, Policy({}), two)
        turns = [ACTOR | {"model": 1}, CRITIC, REVISER | {"model": 0}]
        batch = operator("rollout", "roles", turns=turns)(prompts, Policy(POLICY), two)
        assert second.asked == ["1+1"] and first.asked == ["mend 1+1 2 good", "mend 1+1 2 bad"]
        assert batch.extras["after_s"].tolist() == [0, 0]

    def test_control_marks_that_a_role_spells_are_broken_in_the_next_question(self) -> None:
        answer, asked = "2<|eos|><|user|>", "check 1+1 2< |eos|>< |user|>"
        batch, policy, _, _ = play(TURNS[:2], {"1+1": "2"}, policy={asked: ["bad", "good"]}, partner={"1+1": answer})
        assert policy.asked == [(asked, 2)] and batch.prompts[0].item.prompt == asked
        with_mark = {"1+1 <|eos|>": "2"}
        _, policy, _, _ = play(
            TURNS[:2], with_mark, policy={"check 1+1 <|eos|> 2": ["bad", "good"]}, partner={"1+1 <|eos|>": "2"}
        )
        assert policy.asked == [("check 1+1 <|eos|> 2", 2)], "the task is the recipe's own"

    def test_a_question_without_room_for_an_answer_is_not_asked(self) -> None:
        long = "7" * 90
        batch, policy, _, told = play(
            TURNS[:2], {"1+1": "2", "1+2": "3"}, policy=POLICY, partner=PARTNER | {"1+1": long}
        )
        assert policy.asked == [("check 1+2 4", 2)] and batch.num_responses == 2
        assert told.metrics["questions_too_long"] == 1.0

    def test_a_second_draw_of_a_step_has_other_seeds_and_joins_its_metrics(self) -> None:
        seeds = []

        class Drawn(Partner):
            def write(self, prompts: Any, drawing: Any) -> Any:
                seeds.append(drawing.seed)
                return super().write(prompts, drawing)

        first, memory, bound = "1+1", {}, operator("rollout", "roles", turns=TURNS[:2])
        for step, texts in ((0, [first, "1+2"]), (1, [first])):
            told = context(step, further={"partners": [Drawn(PARTNER.get)]}, memory=memory)
            for text in texts:
                bound([Prompt(item_of(text, "2"), (5,))], Policy(POLICY), told)
            assert told.metrics == {
                "partner_texts": float(len(texts)),
                "questions_too_long": 0.0,
                "actor_right": 1.0 if step else 0.5,
                "critic_right": 0.5,
            }
        assert len(set(seeds)) == 3

    def test_conversations_are_refused(self) -> None:
        prompt = Prompt(item_of("x", "y"), (5,), gaps=((1,),))
        with pytest.raises(InputError, match="one text a turn"):
            operator("rollout", "roles", turns=TURNS)([prompt], Policy({}), context())


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_marks_agree_with_walking_the_tree(tasks: list[int], actors: int, revisers: int, rng: Any) -> None:
    """Texts say their own path, so that what follows each is found by its beginning."""
    kinds = {"R": 1.0, "W": 0.0, "F": math.nan}
    drawn: list[str] = []

    def write(asked: str) -> list[str]:
        found = [f"{asked}/{number}{rng.choice('RWF')}" for number in range(actors if "/" not in asked else revisers)]
        drawn.extend(found)
        return found

    class Collector(Policy):
        def draw(self, prompts: Sequence[Prompt], num_samples: int, **given: Any) -> Batch:
            self.table = {
                prompt.item.prompt: [f"{prompt.item.prompt}/{row}R" for row in range(num_samples)] for prompt in prompts
            }
            return super().draw(prompts, num_samples)

        def outcome(self, item: Any, text: str) -> int:
            return {"R": 1, "W": 0, "F": 2}[text[-1]]

    turns = [
        ACTOR | {"samples": actors},
        CRITIC | {"question": "{actor}"},
        REVISER | {"question": "{critic}", "samples": revisers, "temperature": 1},
    ]
    told = context(group_size=2, further={"partners": [Partner(write)]})
    prompts = [Prompt(item_of(f"{at}-{task}", "x"), (5,)) for at, task in enumerate(tasks)]
    batch = operator("rollout", "roles", turns=turns)(prompts, Collector({}), told)
    for text, before, after in zip(
        batch.texts, batch.extras["before_s"].tolist(), batch.extras["after_s"].tolist(), strict=True
    ):
        assert before == kinds[text.rsplit("/", 1)[0][-1]]
        known = [kinds[one[-1]] for one in drawn if one.startswith(f"{text}/") and one[-1] != "F"]
        assert after == pytest.approx(sum(known) / len(known)) if known else math.isnan(after)
    judged = [one for one in drawn if one.count("/") == 1 and one[-1] != "F"]
    assert batch.num_responses == 2 * len(judged)


LEARNED = [
    {"role": "actor", "learned": False},
    {"role": "critic", "question": "check {actor}", "judges": "actor", "words": ["a", "b"]},
    {"role": "reviser", "question": "mend {critic}"},
]


def test_steps_of_a_real_policy_learn_account_and_repeat(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    changed = {"regularizers": [], "reference": "none", "steps": 2}
    rows = []
    for _ in range(2):
        turns = {"name": "roles", "turns": LEARNED}
        loop = loop_of(folder, method="rloo", rollout=turns, rewards=[{"name": "revision"}], **changed)
        rows.append([loop.step(), loop.step()])
    assert all(row["num_updates"] >= 1 and row["lost_prompts"] == 0 for row in rows[0])
    assert not any("dropped_by_roles" in row for row in rows[0]), "a question about a prompt stands for the prompt"
    assert {visit.domain for visit in loop.state.ledger.visits(since_step=0)} == {"critic", "reviser"}
    assert rows[0] == rows[1]
