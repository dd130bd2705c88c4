"""Phases: settings of their own, and an explicit rule for everything that is carried over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from components.contract.errors import UnknownName
from components.modeling.training.schedule import learning_rate
from components.modeling.training.training_config import OptimizerConfig
from components.rl.component import COMPONENT
from components.rl.params import RLParams
from components.rl.step.ledger import PassRates
from tests.stages.rl_stage import item, lines, make_model, run
from tests.support.stage_context import Interrupted, write_jsonl

RULES = ("optimizer", "reference", "replay", "ledger", "seed")


pytestmark = pytest.mark.usefixtures("one_thread", "toys")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [item(index) | {"domain": "even" if index % 2 == 0 else "odd"} for index in range(10)]
    return write_jsonl(tmp_path_factory.mktemp("prompts"), rows)


def two(first: dict[str, Any] | None = None, second: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Phases of three steps each."""
    return [{"name": "one", "steps": 3} | (first or {}), {"name": "two", "steps": 3} | (second or {})]


def weights_of(finished: Any) -> str:
    return finished.digests["model"]


BASE: dict[str, Any] = {
    "method": "grpo",
    "max_new_tokens": 2,
    "rewards": [{"name": "pattern", "pattern": "^[a-m]"}],  # about half of all responses: every step has a signal
    "replay": "toy_last_batch",
}


def test_one_phase_and_two_that_keep_everything_equal_a_stage_without(
    tmp_path: Path, model: Path, prompts: Path
) -> None:
    plain = run(tmp_path / "plain", model, prompts, **BASE)
    for name, phases in (("one", [{"name": "all", "steps": 6}]), ("two", two())):
        params = BASE | {"phases": phases}
        done = run(tmp_path / name, model, prompts, **params)
        assert done.digests["model"] == plain.digests["model"]
        assert [row.get("phase") for row in done.history] == ([None] * 6 if name == "one" else [0.0] * 3 + [1.0] * 3)


@pytest.mark.parametrize("rule", ["optimizer", "reference", "replay", "seed"])
def test_each_reset_changes_the_second_phase_alone(rule: str, tmp_path: Path, model: Path, prompts: Path) -> None:
    kept = run(tmp_path / "kept", model, prompts, **BASE | {"phases": two()})
    reset = run(tmp_path / "reset", model, prompts, **BASE | {"phases": two(second={"carry": {rule: "reset"}})})
    assert reset.history[:3] == kept.history[:3]
    assert weights_of(reset) != weights_of(kept)


def test_a_reset_optimizer_begins_its_schedule_anew(tmp_path: Path, model: Path, prompts: Path) -> None:
    optimizer = {"peak_learning_rate": 1e-3, "warmup_steps": 1, "schedule": "linear"}

    def rates(name: str, carry: dict[str, str]) -> list[float]:
        params = {"optimizer": optimizer, "phases": two(second={"carry": carry})}
        history = run(tmp_path / name, model, prompts, **BASE | params).history
        return [row["learning_rate"] for row in history]

    kept, reset = rates("kept", {}), rates("reset", {"optimizer": "reset"})
    config = OptimizerConfig.model_validate(optimizer)
    assert kept == [learning_rate(config, step, 6) for step in range(6)]
    assert reset == [learning_rate(config, step % 3, 3) for step in range(6)]


def test_a_reset_reference_is_the_policy_of_that_moment(tmp_path: Path, model: Path, prompts: Path) -> None:
    params = BASE | {"replay": "none", "phases": two(second={"carry": {"reference": "reset"}})}
    rows = run(tmp_path, model, prompts, **params).history
    divergence = [row["reference_kl_k2"] for row in rows]
    assert divergence[0] == pytest.approx(0, abs=1e-9) and divergence[2] > 1e-6
    assert divergence[3] == pytest.approx(0, abs=1e-9) and divergence[5] > 1e-6


def test_a_phase_has_its_own_length_data_and_operators(tmp_path: Path, model: Path, prompts: Path) -> None:
    phases = two(
        first={"domains": ["even"], "max_new_tokens": 1},
        second={
            "domains": ["odd"],
            "max_new_tokens": 3,
            "prompts_per_step": 2,
            "group_size": 8,
            "learning_rate_scale": 0.5,
            "slots": {"objective": "policy_gradient", "regularizers": [], "reference": "none"},
        },
    )
    done = run(tmp_path, model, prompts, **BASE | {"phases": phases})
    first, second = done.history[:3], done.history[3:]
    assert {row["length_max"] for row in first} == {1.0} and max(row["length_max"] for row in second) > 1
    assert all("reference_kl_k1" in row for row in first) and all("reference_kl_k1" not in row for row in second)
    assert {row["num_samples"] for row in done.history} == {16.0}
    assert {row["learning_rate"] for row in second if row["num_updates"]} == {0.5 * first[-1]["learning_rate"]}
    visits = lines(done.outputs["metrics"] / "visits.jsonl")
    assert {(row["domain"], row["step"] >= 3) for row in visits} == {("even", False), ("odd", True)}


@pytest.mark.parametrize("stop_after", [2, 3, 4])
def test_a_run_killed_before_at_and_after_the_border_ends_with_the_same_bytes(
    stop_after: int, tmp_path: Path, model: Path, prompts: Path
) -> None:
    carry = dict.fromkeys(RULES, "reset")
    params = BASE | {"checkpoint_every": 1, "phases": two(second={"carry": carry, "max_new_tokens": 3})}
    straight = run(tmp_path / "straight", model, prompts, **params)
    with pytest.raises(Interrupted):
        run(tmp_path / "killed", model, prompts, stop_after=stop_after, **params)
    resumed = run(tmp_path / "killed", model, prompts, **params)
    assert resumed.digests == straight.digests and resumed.history == straight.history


def test_a_restarted_ledger_shows_only_what_came_after() -> None:
    ledger = PassRates(policy="p")
    ledger.add("a", "A", right=1)
    ledger.add("b", "A", wrong=2)
    ledger.step = 4
    ledger.restart()
    ledger.add("a", "A", wrong=1)
    assert [entry.prompt_id for entry in ledger] == ["a"] and ledger.get("b") is None
    assert [(visit.prompt_id, visit.step) for visit in ledger.visits()] == [("a", 4)]
    assert [(row["prompt_id"], row["num_samples"], row["num_right"]) for row in ledger.rows()] == [
        ("a", 2, 1),
        ("b", 2, 0),
    ]
    assert len(ledger.visit_rows()) == 3
    back = PassRates(policy="p").resumed(ledger.fresh_visits(), **ledger.to_json())
    assert back.rows() == ledger.rows() and back.visit_rows() == ledger.visit_rows()
    assert back.to_json() == ledger.to_json() and [entry.prompt_id for entry in back] == ["a"]


@pytest.mark.parametrize(
    "given, words",
    [
        ({"phases": two(), "steps": 7}, "steps is 7, but the phases have 6"),
        ({"phases": two(second={"name": "one"})}, "names must differ"),
        ({"phases": two(first={"carry": {"seed": "reset"}})}, "is the first, so it has nothing to reset"),
        ({"phases": two(second={"carry": {"optimizer": "drop"}})}, "'keep' or 'reset'"),
        ({"phases": two(second={"slots": {"objectives": "ppo_clip"}})}, "unknown rl slot 'objectives'"),
        ({"phases": two(second={"slots": {"objective": "ppo_clp"}})}, "did you mean 'ppo_clip'"),
        ({"phases": two(second={"slots": {"filters": "drop_truncated"}})}, "filters: expected a list"),
        ({"phases": two(second={"slots": {"objective": ["ppo_clip"]}})}, "objective: expected one operator"),
        ({"phases": two(second={"slots": {"critic": "none"}})}, "one for the whole stage"),
        ({"phases": two(second={"slots": {"reference": "none"}})}, "kl compares with a reference policy"),
    ],
)
def test_mistakes_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        RLParams.model_validate({"method": "grpo"} | given)


def test_a_domain_without_prompts_is_named(tmp_path: Path, model: Path, prompts: Path) -> None:
    with pytest.raises(UnknownName, match=r"domain of phase 'two'.*did you mean 'even'"):
        run(tmp_path, model, prompts, phases=two(second={"domains": ["evne"]}))


def test_a_phases_operators_belong_to_the_stages_sources() -> None:
    assert COMPONENT.sources is not None
    params = RLParams.model_validate(
        {"phases": two(second={"slots": {"objective": "policy_gradient"}}), "method": "grpo"}
    )
    found = {(bound.slot.name, bound.name) for bound in COMPONENT.sources(params)}
    assert {("objective", "ppo_clip"), ("objective", "policy_gradient")} <= found
