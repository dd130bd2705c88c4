"""Recorded steps of a tiny loop judged again: what was recorded comes back, and another reward changes what it must."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from components.contract.errors import InputError
from components.rl.journal.after import state_after
from components.rl.journal.journal import Journal
from components.rl.journal.lines import line_of, responses_of
from components.rl.journal.segments import JournalFolder
from components.rl.journal.segments import Recorded as Recording
from components.rl.params import RLParams
from components.rl.rescore.batches import rebuilt
from components.rl.rescore.further import opened_further
from components.rl.rescore.judging import Judged, Rescorer
from components.rl.rescore.request import params_with, verifier_with
from components.rl.step.experience import Experience
from components.rl.step.settings import StepSettings
from components.tasks.item import Item
from components.tasks.rows import write_rows
from tests.rl.tiny_loop import SIZES, items, loop_of, write_model
from tests.rl.trajectories import conversations

STEPS = 3


class Recorded:
    """A tiny training with its journal, and the context of a stage that did it."""

    def __init__(self, model: Path, folder: Path, pool: list[Item] | None = None, **given: Any) -> None:
        chosen = items() if pool is None else pool
        self.params = RLParams.model_validate(SIZES | {"steps": STEPS} | given)
        self.seen: list[Experience] = []
        loop = loop_of(model, pool=chosen, **{"steps": STEPS} | given)
        self.pool = {prompt.item.id: prompt for prompt in loop.pool}
        (folder / "rollouts").mkdir(parents=True)
        (folder / "data").mkdir()
        write_rows(folder / "data", [item.row() for item in chosen])
        journal = Journal(folder / "rollouts", STEPS, lambda: state_after(loop))

        def keep(got: Experience, step: int) -> None:
            self.seen.append(got)
            journal(got, step)

        loop.journal = keep
        for _ in range(STEPS):
            loop.step()
        self.journal = JournalFolder(folder / "rollouts")
        inputs = {"model": model, "dataset": folder / "data"}
        self.ctx: Any = SimpleNamespace(
            params=self.params,
            seed=0,
            input=lambda port: SimpleNamespace(path=inputs[port]),
            inputs=lambda port: [SimpleNamespace(path=inputs[port])] if port in inputs else [],
        )

    def rescorer(
        self, *rewards: str, combine: str | None = None, verifier: Mapping[str, Any] | None = None
    ) -> Rescorer:
        params = params_with(self.params, rewards, combine)
        with opened_further(self.ctx, params) as further:
            return Rescorer(self.ctx, self.journal, params, verifier=verifier, further=further)

    def judged(self, *rewards: str, **options: Any) -> list[Judged]:
        return list(self.rescorer(*rewards, **options).steps(range(1, STEPS + 1)))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def recorded(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(model, tmp_path_factory.mktemp("run"))


def test_a_recorded_step_is_the_batch_again(recorded: Recorded) -> None:
    for step, got in enumerate(recorded.seen, 1):
        found = recorded.journal.step(step)
        assert found is not None
        batch, rows = rebuilt(found, recorded.pool)
        assert rows == list(range(got.seen.num_responses))
        assert batch.texts == got.seen.texts
        assert [prompt.item.id for prompt in batch.prompts] == [prompt.item.id for prompt in got.seen.prompts]
        for name in (
            "tokens",
            "lengths",
            "group",
            "trace",
            "finished",
            "outcomes",
            "rewards",
            "learned",
            "author",
            "turn",
        ):
            assert torch.equal(vars(batch)[name], vars(got.seen)[name]), name


@pytest.mark.parametrize("method", ["grpo", "rloo", "dr-grpo", "reinforce", "gspo"])
def test_the_stages_own_reward_gives_what_was_recorded(model: Path, tmp_path: Path, method: str) -> None:
    recorded = Recorded(model, tmp_path, method=method)
    rescorer = recorded.rescorer("verifier")
    found = list(rescorer.steps(range(1, STEPS + 1)))
    assert rescorer.by_stage_advantages, rescorer.why
    for judged, got in zip(found, recorded.seen, strict=True):
        assert judged.then == judged.now == got.seen.rewards.tolist()
        assert judged.advantage_then == judged.advantage_now
        mine = torch.tensor(judged.advantage_now)
        if got.batch.num_responses == len(mine):
            assert torch.allclose(mine, got.batch.response_mean(got.batch.advantages), atol=1e-5)


def test_the_opposite_reward_turns_every_sign(recorded: Recorded) -> None:
    for judged in recorded.judged("{name: verifier, right: 0.0, wrong: 1.0}"):
        assert [a + b for a, b in zip(judged.then, judged.now, strict=True)] == [1.0] * len(judged.then)
        pairs = list(zip(judged.advantage_then, judged.advantage_now, strict=True))
        assert all(a == pytest.approx(-b, abs=1e-5) for a, b in pairs)
        assert any(a for a, _ in pairs)


def test_parts_and_their_combination_are_the_new_ones(recorded: Recorded) -> None:
    (first, *_) = recorded.judged("verifier", "{name: pattern, pattern: '[0-9]', weight: 0.5}")
    for text, then, now in zip(first.texts, first.then, first.now, strict=True):
        assert now == then + 0.5 * any(letter.isdigit() for letter in text)
    (first, *_) = recorded.judged(
        "verifier", "{name: pattern, pattern: '[0-9]'}", combine="{name: gate, by: [pattern]}"
    )
    assert all(now in (0.0, 1.0, 2.0) for now in first.now)


def test_another_verifier_judges_anew(recorded: Recorded) -> None:
    for judged in recorded.judged(verifier=verifier_with("exact")):
        assert set(judged.now) == {0.0}, "none of these texts is the answer x"


def test_advantages_that_read_more_than_rewards_are_replaced_and_it_is_said(model: Path, tmp_path: Path) -> None:
    recorded = Recorded(model, tmp_path, method="ppo")
    rescorer = recorded.rescorer("verifier")
    (first, *_) = rescorer.steps([1])
    assert not rescorer.by_stage_advantages and rescorer.why
    groups = itertools.groupby(range(len(first.now)), key=lambda at: first.groups[at])
    for _, members in groups:
        rows = list(members)
        mean = sum(first.now[row] for row in rows) / len(rows)
        assert [first.advantage_now[row] for row in rows] == pytest.approx([first.now[row] - mean for row in rows])


def test_rows_of_prompts_that_are_gone_are_counted(recorded: Recorded) -> None:
    rescorer = recorded.rescorer("verifier")
    gone = next(iter(recorded.seen[0].seen.prompts)).item.id
    del rescorer._by_id[gone]
    (first,) = rescorer.steps([1])
    assert gone not in first.prompts
    assert rescorer.num_left_out == 4


@pytest.mark.parametrize(
    ("reward", "line"),
    [
        (
            "self_certainty",
            "reward operator 'self_certainty' reads the policy, and the weights of each step are not kept",
        ),
        ("information_gain", "operator 'information_gain' reads the"),
        ("elliptical_bonus", "operator 'elliptical_bonus' reads the"),
        ("likelihood_under", "asks scorers, and the stage has none; --in scorers=MODEL"),
    ],
)
def test_a_reward_that_reads_the_policy_is_refused_in_a_line(recorded: Recorded, reward: str, line: str) -> None:
    with pytest.raises(InputError) as refused:
        recorded.judged(reward)
    assert line in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("rewards", "combine", "line"),
    [
        (["verifer"], None, "did you mean 'verifier'?"),
        (["./none.py:f"], None, "./none.py: cannot be read"),
        (["{name: verifier, righd: 1}"], None, "righd"),
        (["[1]"], None, "expected a name, ./file.py:function, or {name: ..., settings}"),
        (["verifier"], "{name: gate, by: [x]}", "names the part 'x'; the rewards are verifier"),
        (["{name: verifier, weight: 0}"], None, "every weight of verifier is 0"),
    ],
)
def test_a_reward_that_does_not_exist_or_fit_is_refused_in_a_line(
    rewards: list[str], combine: str | None, line: str
) -> None:
    with pytest.raises(InputError) as refused:
        params_with(RLParams(), rewards, combine)
    assert line in str(refused.value) and "\n" not in str(refused.value)


def test_a_phase_with_a_reward_of_its_own_gets_the_new_one() -> None:
    phases = [{"name": "one", "steps": 1, "slots": {"rewards": ["score"], "objective": "policy_gradient"}}]
    changed = params_with(RLParams(phases=phases), ["{name: pattern, pattern: x}"], None)
    slots = changed.slots(changed.phases[0])
    assert [spec.name for spec in slots.rewards] == ["pattern"]
    assert slots.objective.name == "policy_gradient", "the phase keeps what is not asked about"


def test_a_recorded_conversation_is_the_batch_again() -> None:
    """Rows with contexts of their own, tokens of environment and template, and earlier turns."""
    batch = conversations([[1.0, 0.0], [0.0, 1.0]], [[[(1, 2)], [(0, 1), (2, 5)]], [[(0, 3)], [(2, 2)]]])
    batch = replace(batch, earlier_turns=tuple((f"turn {row}",) for row in range(batch.num_responses)))
    batch = replace(batch, context=tuple((row, 1) for row in range(batch.num_responses)))
    named = list(responses_of(batch))
    collector = SimpleNamespace(draws=[(0, batch.num_responses)], seen_parts=[])
    got: Any = SimpleNamespace(
        seen=batch, batch=batch.of_learned(), settings=StepSettings(2, 2, 8, 1.0), collector=collector
    )
    line = json.loads(json.dumps(line_of(got, 1, [name for name, _ in named])))
    assert line["learned"] is None, "learned tokens are of the same rows"
    contents = {name: json.loads(written) for name, written in named}
    again, _ = rebuilt(Recording(line, contents), {prompt.item.id: prompt for prompt in batch.prompts})
    for name in ("tokens", "lengths", "group", "trace", "finished", "outcomes", "rewards", "learned", "author", "turn"):
        assert torch.equal(vars(again)[name], vars(batch)[name]), name
    assert (again.texts, again.context, again.earlier_turns) == (batch.texts, batch.context, batch.earlier_turns)
