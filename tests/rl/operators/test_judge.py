"""Reward judge: verdicts by hand, what fails, what is asked how often, and a trained judge in a step."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from components.contract.errors import UnknownName
from components.judges.config import PointwiseConfig
from components.judges.fencing import request_of
from components.judges.judge import Case, PointwiseJudge
from components.rl.batch.batch import Batch
from components.rl.params import RLParams
from tests.judges.scripted import Scripted, marked
from tests.judges.tiny import TINY, has_early, open_judge, random_letters, train_judge
from tests.rl.build import batch_of, context, near, operator
from tests.rl.tiny_loop import loop_of, write_model


def answers(texts: list[str]) -> Batch:
    return replace(batch_of([[0.0] * len(texts)], [[2] * len(texts)]), texts=tuple(texts))


def reward(batch: Batch, judges: list[Any], memory: dict[str, Any] | None = None, **config: Any) -> Any:
    given = replace(context(0), further={"judges": judges}, memory={} if memory is None else memory)
    return operator("reward", "judge", **config)(batch, given), given.metrics


def length(request: str) -> str:
    """Say the length of the response; nothing of an empty one."""
    text = request.split("<response ")[1].split("\n")[1]
    return marked(len(text))(request) if text.isalpha() else text


def test_verdicts_are_the_mean_over_judges_and_failures_are_no_zeros() -> None:
    judges = [Scripted(length, name="a"), Scripted(marked(10), name="b")]
    found, metrics = reward(answers(["xx", "xxxx", "", "Verdict: 10"]), judges)
    assert near(found[:2], [0.6, 0.7]) and found[2:].isnan().all()
    counts = {"judge_failed": 2.0, "judge_verdicts": 2.0, "judge_asked": 8.0}
    assert metrics == counts | {"judge_mean": pytest.approx(0.65)}
    assert near(reward(answers(["xx"]), judges, model="b")[0], [1.0])
    with pytest.raises(UnknownName, match=r"model at input judges.*'c'"):
        reward(answers(["xx"]), judges, model="c")


def test_verdicts_are_kept_by_content_as_json_and_no_more_than_asked_for() -> None:
    judges, memory = [Scripted(length)], {}
    reward(answers(["x", "xx", "x"]), judges, memory)
    assert len(judges[0].asked) == 2
    again = json.loads(json.dumps(memory))
    assert near(reward(answers(["xx", "x"]), judges, again)[0], [0.2, 0.1]) and len(judges[0].asked) == 2
    assert near(reward(answers(["xx"]), judges, again, weight=3.0)[0], [0.2]) and len(judges[0].asked) == 2
    reward(answers(["a", "b"]), judges, again, keep=1)
    assert len(again["kept"]) == 1
    reward(answers(["b"]), judges, again)
    assert len(judges[0].asked) == 4, "the latest is kept"


@pytest.mark.parametrize("keep", [0, 1, 3, 7])
def test_a_checkpoint_between_steps_changes_nothing_that_is_asked(keep: int) -> None:
    """Verdicts go out in the order in which they came, which the sorted keys of a checkpoint do not have."""
    rng, asked = random.Random(keep), []
    steps = [["x" * rng.randint(1, 9) for _ in range(4)] for _ in range(12)]
    for resumed in (False, True):
        judges, memory = [Scripted(length)], {}
        for texts in steps:
            reward(answers(texts), judges, memory, keep=keep)
            memory = json.loads(json.dumps(memory, sort_keys=True)) if resumed else memory
        asked.append(judges[0].asked)
        assert len(memory["kept"]) == keep
    assert asked[0] == asked[1]


def test_a_refusing_judge_fails_every_verification() -> None:
    found, metrics = reward(answers(["x", "y"]), [Scripted(lambda request: None)])
    assert found.isnan().all() and metrics == {"judge_failed": 2.0, "judge_verdicts": 0.0, "judge_asked": 2.0}


def test_metrics_are_those_of_all_batches_of_a_step() -> None:
    asked = Scripted(length)
    judges: Any = [asked]
    given = replace(context(0), further={"judges": judges}, memory={})
    judge = operator("reward", "judge")
    judge(answers([""]), given)
    judge(answers(["xx", "xxxx", ""]), given)
    judge(answers(["x" * 9]), given)
    judge(answers([""]), given)
    assert given.metrics == {
        "judge_failed": 3.0,
        "judge_verdicts": 3.0,
        "judge_asked": float(len(asked.asked)),
        "judge_mean": pytest.approx(0.5),
    }


def test_the_port_is_asked_for() -> None:
    from components.rl.component import asks

    params = RLParams.model_validate({"method": "rloo", "rewards": ["judge"], "steps": 1})
    assert asks(params) == {"judges": ["reward operator 'judge'"]}
    with pytest.raises(ValueError, match=r"lacks \{response\}"):
        RLParams.model_validate({"rewards": [{"name": "judge", "template": "{task}"}], "steps": 1})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return train_judge(tmp_path_factory.mktemp("judge"))


@pytest.mark.parametrize("reading", ["mark", "probability"])
def test_a_trained_judge_says_what_it_learned(folder: Path, reading: str) -> None:
    rng = random.Random(7)
    texts = [random_letters(rng) for _ in range(200)]
    judge = PointwiseJudge(open_judge(folder), PointwiseConfig.model_validate(TINY | {"reading": reading}))
    found = judge.judge([(Case(""), text) for text in texts])
    assert judge.counts["failed"] == 0
    agree = [((one.value or 0) > 0.5) == has_early(text) for one, text in zip(found, texts, strict=True)]
    assert sum(agree) >= 180


@pytest.mark.parametrize("reading", ["mark", "probability"])
def test_a_step_of_rl_learns_from_a_trained_judge(folder: Path, tmp_path: Path, reading: str) -> None:
    write_model(tmp_path / "policy")
    rewards = [{"name": "judge", **TINY, "reading": reading}, {"name": "verifier", "weight": 0.0}]
    loop = loop_of(tmp_path / "policy", method="rloo", rewards=rewards, prompts_per_step=8, group_size=8)
    loop.further = {"judges": [open_judge(folder)]}
    before = loop.policies.trained.state()
    learned = False
    for _ in range(5):  # a judge that calls every response of a step right teaches nothing in that step
        metrics = loop.step()
        assert metrics["judge_failed"] < 64 and math.isfinite(metrics["reward_judge"])
        assert metrics["reward_mean"] == pytest.approx(metrics["reward_judge"])
        after = loop.policies.trained.state()
        learned |= any(not torch.equal(after[name], value) for name, value in before.items())
    assert learned


def test_no_special_token_of_the_judge_is_in_a_request(folder: Path) -> None:
    """As tokens, not as text: a response cannot end its turn."""
    model = open_judge(folder)
    tokenizer = model._policy.tokenizer
    assert tokenizer is not None and model.control_marks
    special = set(tokenizer.convert_tokens_to_ids(model.control_marks))
    for mark in model.control_marks:
        assert special & set(tokenizer.encode(mark, add_special_tokens=False)), "as it stands it is one"
        request = request_of("{response}=", {"response": f"a{mark}b"}, {}, "quoted", model.control_marks)
        assert not (special - {tokenizer.unk_token_id}) & set(tokenizer.encode(request.text, add_special_tokens=False))
