"""Whether a response gives an answer at all."""

from __future__ import annotations

from components.tasks.answers import ANSWER_OPEN, HASHES, THINK_CLOSE, extract_answer


def given_answer(response: str) -> str | None:
    r"""Return the final answer behind a mark (`<answer>`, `\boxed{...}`, `####`); None without one, or if it is empty.

    `extract_answer` takes all of a response without marks for its answer; here that is no answer.
    """
    answer = extract_answer(response)
    unmarked = response.rpartition(THINK_CLOSE)[2].strip()
    marked = ANSWER_OPEN in response or HASHES in response or answer != unmarked
    return answer if marked and answer else None
