"""Reward mixture_of_judges: by hand and by a rule for each response, judges that cannot say, and refusals."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.rl.batch.batch import FOREIGN, RIGHT, WRONG, Batch
from components.rl.component import asks
from components.rl.params import RLParams
from tests.judges.scripted import Scripted, marked
from tests.rl.build import batch_of, context, operator

EARLY = {"name": "early", "reward": {"name": "pattern", "pattern": "[a-h]"}}
SHORT = {"name": "short", "reward": {"name": "pattern", "pattern": r"\A.{1,3}\Z"}}
RULED = {"name": "ruled", "reward": "verifier"}
ASKED: dict[str, Any] = {"name": "asked", "reward": {"name": "judge", "low": 0, "high": 10}, "at_least": 0.5}


def answers(texts: list[str], domains: str, right: list[bool] | None = None) -> Batch:
    """Return one response for each prompt."""
    batch = batch_of([[0.0]] * len(texts))
    prompts = tuple(
        replace(prompt, item=prompt.item.model_copy(update={"domain": domain}))
        for prompt, domain in zip(batch.prompts, domains, strict=True)
    )
    outcomes = torch.tensor([RIGHT if one else WRONG for one in right or [False] * len(texts)])
    return replace(batch, prompts=prompts, texts=tuple(texts), outcomes=outcomes)


def mixture(
    batch: Batch, *, judges: Any = (), memory: Any = None, **config: Any
) -> tuple[list[float], dict[str, float]]:
    now = replace(context(0), further={"judges": judges}, memory={} if memory is None else memory)
    return operator("reward", "mixture_of_judges", **config)(batch, now).tolist(), now.metrics


def test_each_task_has_its_own_judges() -> None:
    batch = answers(["ab", "abcd", "xyz", "x", "b", "zz"], "AAABBC", right=[False, False, True, True, False, False])
    found, metrics = mixture(batch, by={"A": [EARLY, SHORT], "B": [RULED]}, default=[])
    assert found == [1, 0, 0, 1, 0, 1]
    assert metrics == {
        "holds_early": pytest.approx(2 / 3),
        "holds_short": pytest.approx(2 / 3),
        "all_hold_A": pytest.approx(1 / 3),
        "holds_ruled": 0.5,
        "all_hold_B": 0.5,
        "all_hold_C": 1.0,
    }
    with pytest.raises(InputError, match="domain 'C' has no judges"):
        mixture(batch, by={"A": [EARLY], "B": [RULED]})


def test_external_responses_are_judged_and_not_measured() -> None:
    batch = answers(["ab", "xyz"], "AA")
    batch = replace(batch, author=torch.where(batch.to_tokens(torch.tensor([False, True])), FOREIGN, batch.author))
    found, metrics = mixture(batch, by={"A": [EARLY]})
    assert found == [1, 0] and metrics == {"holds_early": 1.0, "all_hold_A": 1.0}


def judged(length: str) -> str:
    """Say the length of the response; nothing that can be read of one without letters."""
    text = length.split("<response ")[1].split("\n")[1]
    return marked(len(text))(length) if text.isalpha() else "I cannot say"


def test_a_language_model_is_a_judge_beside_rules() -> None:
    batch = answers(["abcdef", "ab", "12", "a2", "Verdict: 10"], "AAAAA")
    found, metrics = mixture(batch, judges=[Scripted(judged)], by={"A": [EARLY, ASKED]})
    # "12" is refused by the rule, whatever the judge would have said; of "a2" and the last one nothing is known
    assert found[:3] == [1, 0, 0] and math.isnan(found[3]) and math.isnan(found[4])
    assert metrics["holds_asked"] == 0.5 and metrics["all_hold_A"] == pytest.approx(1 / 3)


def test_verdicts_are_kept_from_step_to_step_as_json() -> None:
    judge, memory = Scripted(judged), dict[str, Any]()
    batch = answers(["abcdef", "ab"], "AB")
    first, _ = mixture(batch, judges=[judge], memory=memory, by={"A": [ASKED], "B": [ASKED]})
    asked = len(judge.asked)
    again = json.loads(json.dumps(memory, sort_keys=True))
    assert mixture(batch, judges=[judge], memory=again, by={"A": [ASKED], "B": [ASKED]})[0] == first == [1, 0]
    assert len(judge.asked) == asked


VALUE = st.sampled_from([0.0, 0.4, 0.5, 1.0, math.nan])


@given(st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=6))
def test_each_response_by_itself(rows: list[tuple[float, float]]) -> None:
    """Against a rule for one response, with two language models that say what the response tells them to."""
    texts = [f"{first}|{second}" for first, second in rows]
    judge = [
        Scripted(lambda request: says(request, 0), name="one"),
        Scripted(lambda request: says(request, 1), name="two"),
    ]

    def says(request: str, side: int) -> str:
        value = request.split("<response ")[1].split("\n")[1].split("|")[side]
        return "?" if value == "nan" else marked(round(10 * float(value)))(request)

    by = {"A": [{**ASKED, "name": name, "reward": {**ASKED["reward"], "model": name}} for name in ("one", "two")]}
    found, _ = mixture(answers(texts, "A" * len(rows)), judges=judge, by=by)
    for value, row in zip(found, rows, strict=True):
        if any(one < 0.5 for one in row):
            assert value == 0
        elif any(math.isnan(one) for one in row):
            assert math.isnan(value)
        else:
            assert value == 1


def params(**config: Any) -> RLParams:
    rewards = ["verifier", {"name": "mixture_of_judges", "weight": 0, **config}]
    return RLParams.model_validate({"method": "rloo", "rewards": rewards, "steps": 1})


def test_the_judges_port_is_asked_for_where_a_judge_is_a_model() -> None:
    assert asks(params(by={"A": [EARLY]})) == {}
    assert asks(params(by={"A": [EARLY]}, default=[ASKED])) == {"judges": ["reward operator 'mixture_of_judges'"]}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"by": {}}, "at least 1"),
        ({"by": {"A": [EARLY, EARLY]}}, "judges of A have different names, not early, early"),
        ({"by": {"A": [{"name": "a b", "reward": "verifier"}]}}, "name"),
        ({"by": {"A": [{"name": "a", "reward": "verifyer"}]}}, "did you mean 'verifier'"),
        ({"by": {"A": [{"name": "a", "reward": "scorer"}]}}, "ask it by calibrated_scorer"),
    ],
)
def test_bad_settings_are_one_line(config: dict[str, Any], said: str) -> None:
    with pytest.raises((ValidationError, InputError), match=said):
        params(**config)
