"""Rewards judged_answer and rule_then_judge: by hand, who is asked about what, and what fails."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.contract.operators import OperatorRefused
from components.rl.batch.batch import Batch
from components.rl.params import RLParams
from components.tasks.item import Item
from tests.judges.scripted import Scripted
from tests.rl.build import batch_of, context, near, operator

JUDGE: dict[str, Any] = {"template": "{response}|{answer}=", "fence": "quoted", "mark": "", "labels": {"y": 1, "n": 0}}
CHARACTERS = SimpleNamespace(tokenizer=SimpleNamespace(encode=lambda text, add_special_tokens: list(text)))


def answers(texts: list[str], answer: str = "0.5", **item: Any) -> Batch:
    batch = batch_of([[0.0] * len(texts)], [[2] * len(texts)])
    fields = {"id": "p", "domain": "A", "prompt": "half", "answer": answer, "verifier": "numeric"} | item
    prompt = replace(batch.prompts[0], item=Item(**fields))
    return replace(batch, texts=tuple(texts), prompts=(prompt,))


def reward(name: str, batch: Batch, judge: Scripted, **config: Any) -> tuple[torch.Tensor, dict[str, float]]:
    policies: Any = SimpleNamespace(trained=CHARACTERS)
    further: Any = {"judges": [judge]}
    given_context = replace(context(0), further=further, policies=policies, memory={})
    return operator("reward", name, **JUDGE, **config)(batch, given_context), given_context.metrics


def halves(request: str) -> str:
    """Say yes to a half, no to other numbers, and nothing that can be read of words."""
    said = request.split('"')[1]
    return "y" if said in ("1/2", "0.5", "50%", "0.500000000000") else "n" if said[0].isdigit() else "hm"


def test_judged_answer_by_hand() -> None:
    """An answer of 3 tokens beside a reference of 3 costs nothing, one of 14 costs .5, no mark earns -.5."""
    texts = ["<answer>0.5", "so <answer>1/2</answer>", "<answer>0.500000000000", "<answer>2/3", "1/2", "<answer>half"]
    judge = Scripted(halves)
    found, metrics = reward("judged_answer", answers(texts), judge)
    assert near(found[:5], [1.0, 1.0, 1 - 0.05 * 10, 0.0, -0.5]) and found[5].isnan()
    assert judge.asked == ['"0.5"|"0.5"=', '"1/2"|"0.5"=', '"0.500000000000"|"0.5"=', '"2/3"|"0.5"=', '"half"|"0.5"=']
    assert metrics["unanswered_share"] == pytest.approx(1 / 6) and metrics["judge_failed"] == 1
    assert metrics["length_price"] == pytest.approx(0.5 / 3)
    priced, _ = reward("judged_answer", answers(["<answer>50%"], answer="0.5000"), Scripted(halves), per_token=0.1)
    assert near(priced, [1 - 0.1 * 3])


@given(
    st.lists(st.sampled_from(["<answer>0.5", "<answer>9", "<answer>hm", "none", "<answer>1/2"]), min_size=1, max_size=6)
)
def test_rewards_follow_each_response_alone(texts: list[str]) -> None:
    """Whoever stands beside it in the batch: a reference that asks about one response at a time."""
    found, _ = reward("judged_answer", answers(texts), Scripted(halves))
    alone = [reward("judged_answer", answers([text]), Scripted(halves))[0][0].item() for text in texts]
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(found.tolist(), alone, strict=True))


def test_nobody_is_asked_where_there_is_no_answer() -> None:
    judge = Scripted(halves)
    found, metrics = reward("judged_answer", answers(["", "0.5"]), judge, unanswered=-1.0)
    assert near(found, [-1.0, -1.0]) and not judge.asked and metrics == {"unanswered_share": 1.0}


RULED = ["<answer>0.5", "<answer>1/2", "<answer>2/3", "<answer>half"]


def reads_answer(request: str) -> str:
    return halves(request.replace("<answer>", ""))


@pytest.mark.parametrize(
    ("config", "expected", "asked"),
    [
        ({"decides": "right"}, [1.0, 1.0, 0.0, math.nan], 3),
        ({"decides": "both"}, [1.0, 0.0, 0.0, 0.0], 0),
        ({"decides": "wrong"}, [1.0, 0.0, 0.0, 0.0], 1),
        ({"rule": {"name": "numeric"}, "decides": "both"}, [1.0, 1.0, 0.0, 0.0], 0),
        ({"rule": {"name": "numeric", "absolute_tolerance": 0.2}}, [1.0, 1.0, 1.0, math.nan], 1),
    ],
)
def test_the_rule_decides_first(config: dict[str, Any], expected: list[float], asked: int) -> None:
    judge = Scripted(reads_answer)
    found, metrics = reward("rule_then_judge", answers(RULED), judge, **config)
    assert [value if not math.isnan(value) else None for value in found.tolist()] == [
        value if not math.isnan(value) else None for value in expected
    ]
    assert len(judge.asked) == asked and metrics["rule_decided"] == pytest.approx(1 - asked / 4)


def test_a_rule_that_failed_leaves_it_to_the_judge() -> None:
    """A reference in words is a broken item to `numeric`; the judge reads it."""
    judge = Scripted(lambda request: "y" if "half" in request.split('"')[1] else "n")
    batch = answers(["<answer>half", "<answer>0.5"], answer="half")
    found, metrics = reward("rule_then_judge", batch, judge, rule="numeric", decides="both")
    assert near(found, [1.0, 0.0]) and len(judge.asked) == 2 and metrics["rule_decided"] == 0


def test_the_judge_reads_the_answer_alone_if_asked_to() -> None:
    judge = Scripted(halves)
    found, _ = reward("rule_then_judge", answers(RULED[:3]), judge, final_answer=True)
    assert near(found, [1.0, 1.0, 0.0]) and judge.asked == ['"1/2"|"0.5"=', '"2/3"|"0.5"=']


def test_settings_of_the_item_are_for_its_own_verifier_alone() -> None:
    batch = answers(["<answer>0.6"], data={"settings": {"absolute_tolerance": 0.2}})
    found, _ = reward("rule_then_judge", batch, Scripted(reads_answer), rule="numeric", decides="both")
    assert near(found, [0.0])


def test_ports_and_bad_settings() -> None:
    from components.rl.component import asks

    for name in ("judged_answer", "rule_then_judge"):
        params = RLParams.model_validate({"method": "rloo", "rewards": [name], "steps": 1})
        assert asks(params) == {"judges": [f"reward operator '{name}'"]}
        with pytest.raises((ValueError, OperatorRefused), match=r"lacks \{response\}"):
            RLParams.model_validate({"rewards": [{"name": name, "template": "{task}"}], "steps": 1})
    with pytest.raises((ValueError, OperatorRefused), match="no_such"):
        RLParams.model_validate({"rewards": [{"name": "rule_then_judge", "rule": "no_such"}], "steps": 1})
