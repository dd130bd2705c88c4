"""reasoning-gym: the scorer that belongs to the item's own task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field

from components.contract.params import Params
from components.runtime.sandbox import Limits, Reply, Status
from components.tasks.answers import extract_answer
from components.tasks.grammars import reasoning_gym as grammar
from components.tasks.item import Item
from components.tasks.sandboxed import Request, blame
from components.tasks.scoring.reasoning_gym import scores
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

VERSIONED_PACKAGES = ("reasoning-gym", "sympy")
"""Its scorers judge: see components.contract.operators."""
MAX_CHARS = 100_000
MEMORY_BYTES = 1 << 30
PRELOAD = "components.tasks.scoring.warm_reasoning_gym"
"""Imported inside only: it imports the library and scores an answer of each kind before any deadline starts."""


class ReasoningGymConfig(Params):
    """When a score is right, and how long scoring may take."""

    full_score: float = Field(default=1.0, gt=0, le=1)
    """Score from which a response is right; below it reasoning-gym gives partial credit for nearness."""
    timeout_seconds: float = Field(default=10.0, gt=0)
    """Deadline of scorers that run in the sandbox, because they evaluate text or may take long."""


def reasoning_gym(item: Item, response: str, *, config: ReasoningGymConfig) -> Verdict | Request:
    """Judge by the task's score_answer: full score is RIGHT.

    A response that is not right is compared with the reference answer: when the scorer does not give that one full
    score either, the item or the scorer is broken (FAILED). A scorer that raises on a response, or does not end, but
    accepts the reference could not read it (WRONG). Where the scorer evaluates text, an answer that is not of the form
    that the task asks for is WRONG without being evaluated.
    """
    return _Judgement(item, extract_answer(response), config).begin()


class _Judgement:
    """One answer to one item, from the first request to the verdict."""

    def __init__(self, item: Item, answer: str, config: ReasoningGymConfig) -> None:
        self._item, self._answer, self._config = item, answer, config
        self._task, self._argument = _text(item, "task"), _argument(item)
        metadata = item.data.get("metadata")
        self._metadata: dict[str, Any] = metadata if isinstance(metadata, dict) else {}

    def begin(self) -> Verdict | Request:
        """Return the verdict, or the request to the sandbox that it depends on."""
        if len(self._answer) > MAX_CHARS:
            return wrong(f"longer than {MAX_CHARS} characters")
        if self._task in grammar.JUDGED_HERE:
            return self._conclude_here(scores({**self._argument, "answers": [self._answer]}))
        if not grammar.is_harmless_row(self._task, self._item.answer, self._metadata):
            raise BrokenItem(f"the reference or the metadata is not of the form of task {self._task!r}")
        if not grammar.is_harmless(self._task, self._answer, self._item.answer, self._metadata):
            return wrong(f"not {grammar.form(self._task)}: {self._answer[:80]!r}")
        if grammar.judged_alone(self._task):
            return self._request([self._answer], self._conclude_alone)
        return self._request([self._answer, self._item.answer], self._conclude_both)

    def _conclude_here(self, found: dict[str, Any]) -> Verdict:
        score = _scores(found)[0]
        if self._is_right(score):
            return RIGHT
        return self._beside(score, _scores(scores({**self._argument, "answers": [self._item.answer]}))[0])

    def _conclude_both(self, reply: Reply) -> Verdict | Request:
        if reply.status is not Status.VALUE:
            return blame(reply, self._request([self._item.answer], self._conclude_both))
        score, reference = _scores(reply.value)
        return RIGHT if self._is_right(score) else self._beside(score, reference)

    def _conclude_alone(self, reply: Reply) -> Verdict | Request:
        control = self._request([self._item.answer], self._conclude_alone)
        if reply.status is not Status.VALUE:
            return blame(reply, control)
        score = _scores(reply.value)[0]
        if self._is_right(score):
            return RIGHT
        return self._request([self._item.answer], lambda second: self._beside(score, _reference(second)))

    def _is_right(self, score: float | str) -> bool:
        return isinstance(score, float | int) and score >= self._config.full_score and not self._unearned()

    def _unearned(self) -> str:
        return grammar.unearned(self._task, self._answer, self._item.answer, self._metadata)

    def _beside(self, score: float | str, reference: float | str) -> Verdict:
        """Return WRONG if the scorer gives the reference more; an item may have none."""
        if self._item.answer and not (isinstance(reference, float | int) and reference >= self._config.full_score):
            raise BrokenItem("the scorer does not accept the reference answer")
        if isinstance(score, str):
            detail = f"the scorer cannot read it ({score})"
        else:
            detail = self._unearned() if score >= self._config.full_score else f"score {score:.3g}"
        return wrong(f"{detail}: answered {self._answer[:80]!r}")

    def _request(self, answers: list[str], conclude: Callable[[Reply], Verdict | Request]) -> Request:
        return Request(
            scores,
            {**self._argument, "answers": answers},
            conclude,
            Limits(seconds=self._config.timeout_seconds, memory_bytes=MEMORY_BYTES),
            preload=(PRELOAD,),
            shared=not grammar.judged_alone(self._task),
        )


def _scores(found: Any) -> list[float | str]:
    """Return the result of `scores`; raise BrokenItem for an item that it could not use."""
    if "broken" in found:
        raise BrokenItem(found["broken"])
    return found["scores"]


def _reference(reply: Reply) -> float | str:
    return _scores(reply.value)[0] if reply.status is Status.VALUE else reply.status.value


def _argument(item: Item) -> dict[str, Any]:
    """Return the item's entry: its stored metadata, or seed and index if JSON could not hold that."""
    of_task = {"task": _text(item, "task"), "config": _mapping(item, "config")}
    if "metadata" in item.data:
        entry = {"question": item.prompt, "answer": item.answer, "metadata": _mapping(item, "metadata")}
        return {**of_task, "entry": entry}
    seed, index = item.data.get("seed"), item.data.get("index")
    if not (isinstance(seed, int) and isinstance(index, int)):
        raise BrokenItem("data has neither metadata nor the seed and index to make it again")
    return {**of_task, "seed": seed, "index": index, "question": item.prompt}


def _text(item: Item, key: str) -> str:
    value = item.data.get(key)
    if not isinstance(value, str):
        raise BrokenItem(f"data.{key} is missing")
    return value


def _mapping(item: Item, key: str) -> dict[str, Any]:
    value = item.data.get(key)
    if not isinstance(value, dict):
        raise BrokenItem(f"data.{key} is missing")
    return value
