"""Whether a response gives an answer at all."""

from __future__ import annotations

from components.tasks.answers import find_answer


def given_answer(response: str) -> str | None:
    r"""Return the final answer behind a mark (`<answer>`, `\boxed{...}`, `####`); None without one, or if it is empty.

    `extract_answer` takes all of a response without marks for its answer; here that is no answer.
    """
    answer = find_answer(response)
    return answer.text if answer.marked and answer.text else None
