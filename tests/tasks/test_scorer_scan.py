"""Which scorers of the library evaluate: a newer version that brings another must not pass unseen."""

from __future__ import annotations

from reasoning_gym.factory import DATASETS, ProceduralDataset

from components.tasks.grammars.reasoning_gym import ANSWERS, JUDGED_HERE, OPEN, ROWS, SANDBOXED, SLOW
from tests.support.scorer_scan import evaluating_calls


def test_no_scorer_that_is_judged_in_this_process_reaches_an_evaluating_call() -> None:
    found = {task: evaluating_calls(task, dataset) for task, (dataset, _) in DATASETS.items()}
    assert {task: calls for task, calls in found.items() if calls and task in JUDGED_HERE} == {}
    assert {task for task, calls in found.items() if calls} >= {*ANSWERS, "bitwise_arithmetic", "number_sorting"}


def test_the_scan_sees_through_helpers() -> None:
    class Hidden(ProceduralDataset):
        def score_answer(self, answer: str | None, entry: dict) -> float:
            return float(_helper(answer) == entry["answer"])

    assert evaluating_calls("hidden", Hidden) == {"eval"}


def _helper(answer: str | None) -> object:
    return _deeper(answer)


def _deeper(answer: str | None) -> object:
    return eval(answer or "")


def test_every_table_is_of_tasks_that_there_are() -> None:
    assert {*ANSWERS, *ROWS, *SLOW, *OPEN} == SANDBOXED <= DATASETS.keys()
    assert not JUDGED_HERE & SANDBOXED
    assert DATASETS.keys() == JUDGED_HERE | SANDBOXED
