"""Hostile responses to every reasoning-gym task: none does anything, none is right, none is left out as failed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
from reasoning_gym.factory import DATASETS, ProceduralDataset, register_dataset

from components.tasks.grammars.reasoning_gym import SANDBOXED
from components.tasks.grammars.reasoning_gym_tasks import TASK_NAMES
from components.tasks.item import Item
from components.tasks.verify import Outcome, verify, verify_all
from tests.support.hostile import Watch, hostile_responses, listening
from tests.tasks.test_reasoning_gym import draw, through_json

OFFERED = sorted(TASK_NAMES - {"composite"})
"""A recipe cannot ask for composite: its config takes objects."""
SECONDS = {"timeout_seconds": 1.0}


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[tuple[Watch, Path, int]]:
    folder = tmp_path / "canary"
    folder.mkdir()
    with listening() as listener:
        yield Watch(folder, listener), folder, listener.getsockname()[1]


def offered_item(task: str) -> Item:
    """Return an item of the task with a short deadline."""
    item = through_json(draw(task, 1)[0], task)
    return item.model_copy(update={"data": {**item.data, "settings": SECONDS}})


@pytest.mark.parametrize("task", OFFERED)
def test_hostile_responses_do_nothing_and_are_wrong(task: str, watch: tuple[Watch, Path, int]) -> None:
    before, folder, port = watch
    item = offered_item(task)
    responses = hostile_responses(folder, port, item.answer or "1")
    assert len(responses) >= 20
    kept = copy.deepcopy(item)
    verdicts = verify_all((item, f"<answer>{response}") for response in responses)
    assert before.changes() == []
    judged = {text: verdict for text, verdict in zip(responses, verdicts, strict=True) if not _has_solved(text, item)}
    assert {text: verdict for text, verdict in judged.items() if verdict.outcome is not Outcome.WRONG} == {}
    if item.answer:
        assert verify(item, f"<answer>{item.answer}").right or "Integral" in item.answer
    assert item == kept, "the scorer writes into the entry"


def _has_solved(response: str, item: Item) -> bool:
    """Return whether it begins with the solution, and the scorer is one that compares text and looks no further."""
    return item.data["task"] not in SANDBOXED and bool(item.answer) and response.startswith(item.answer)


def test_every_task_of_the_library_is_offered() -> None:
    assert len(OFFERED) == len(DATASETS) - 1 >= 100
    assert SANDBOXED <= TASK_NAMES


def test_a_row_that_names_code_as_its_reference_is_broken_and_runs_nothing(watch: tuple[Watch, Path, int]) -> None:
    """What a row holds is evaluated by some scorers as well: integrands, problems, references."""
    before, folder, _ = watch
    code = f"[__import__('os').system('touch {folder}/row')]"
    for task, place in [
        ("bitwise_arithmetic", "problem"),
        ("simple_integration", "integrand"),
        ("intermediate_integration", "integrand"),
        ("number_sorting", "answer"),
        ("polynomial_multiplication", "answer"),
        ("countdown", "answer"),
        ("n_queens", "answer"),
    ]:
        item = offered_item(task)
        metadata = {**item.data["metadata"], **({place: code} if place != "answer" else {})}
        changed = {"data": {**item.data, "metadata": metadata}, **({"answer": code} if place == "answer" else {})}
        verdict = verify(item.model_copy(update=changed), "<answer>1")
        assert verdict.outcome is Outcome.FAILED, task
        assert "broken item" in verdict.detail
    assert before.changes() == []


def test_a_task_that_is_not_ours_runs_in_the_sandbox(watch: tuple[Watch, Path, int]) -> None:
    """A scorer that evaluates and is in no table of ours, as a new version of the library may bring one."""
    before, folder, _ = watch

    class Evaluates(ProceduralDataset):
        pass

    register_dataset("evaluates_answers", Evaluates, DATASETS["chain_sum"][1])
    try:
        item = offered_item("chain_sum")
        other = item.model_copy(update={"data": {**item.data, "task": "evaluates_answers"}})
        assert verify(other, f"<answer>open('{folder}/here', 'w')").outcome is not Outcome.RIGHT
    finally:
        del DATASETS["evaluates_answers"]
    assert before.changes() == []
