"""Where a step parts: the first difference in the order of the step."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from components.rl.journal.comparing import drawn_words, parting

LINE: dict[str, Any] = {
    "step": 7,
    "settings": {"group_size": 2, "temperature": 1.0},
    "drawn": [[6, 4]],
    "prompts": ["a", "b"],
    "groups": [2, 2],
    "responses": ["1", "2", "3", "4"],
    "cut": [],
    "outcomes": "rwrw",
    "rewards": [1.0, 0.0, 1.0, 0.0],
    "parts": {"verifier": [1.0, 0.0, 1.0, 0.0]},
    "learned": None,
    "advantages": [1.0, -1.0, 1.0, -1.0],
    "digests": {"logprobs": "x", "entropies": "y", "batch": "z"},
    "after": {"weights": "w", "generator": "g", "waiting": []},
}
ROW = {"step": 7.0, "loss": 0.5, "grad_norm": 1.0}


def changed(*path: str | int, to: Any) -> dict[str, Any]:
    line = copy.deepcopy(LINE)
    found: Any = line
    for key in path[:-1]:
        found = found[key]
    found[path[-1]] = to
    return line


@pytest.mark.parametrize(
    ("now", "what", "detail"),
    [
        (changed("settings", "temperature", to=0.5), "settings", "temperature was 1.0 and is 0.5"),
        (changed("prompts", 1, to="c"), "prompts", "the second was b and is c"),
        (
            changed("drawn", to=[[5, 4]]),
            "draws",
            "4 by the weights after step 6 then, 4 by the weights after step 5 now",
        ),
        (changed("responses", 2, to="9"), "responses", "response 3 of 4, to b, has other tokens"),
        (changed("outcomes", to="rwww"), "outcomes", "response 3 of 4, to b, has another outcome: r then, w now"),
        (changed("rewards", 0, to=0.5), "rewards", "response 1 of 4, to a, has another reward: 1.0 then, 0.5 now"),
        (changed("parts", "verifier", 3, to=None), "parts of the reward", "verifier of response 4 was 0.0 and is None"),
        (changed("digests", "logprobs", to="?"), "log-probabilities of the draws", "equal tokens, other bits"),
        (changed("learned", to=[0, 1]), "what is learned from", "chose other rows"),
        (changed("advantages", 1, to=-0.5), "advantages", "row 2 had -1.0 and has -0.5"),
        (changed("digests", "batch", to="?"), "the batch", "other bits"),
        (changed("after", "weights", to="?"), "weights after the step", "other bits"),
        (changed("after", "generator", to="?"), "random generator after the step", "other bits"),
        (changed("after", "waiting", to=[6]), "draws that wait", "[] then, [6] now"),
    ],
)
def test_each_difference_is_told(now: dict[str, Any], what: str, detail: str) -> None:
    found = parting(LINE, now, ROW, ROW)
    assert found is not None
    assert (found.step, found.what) == (7, what)
    assert detail in found.detail


def test_equal_steps_do_not_part() -> None:
    assert parting(LINE, copy.deepcopy(LINE), ROW, dict(ROW)) is None


def test_a_column_of_the_history_is_compared_to_the_last_bit() -> None:
    found = parting(LINE, LINE, ROW, {**ROW, "loss": 0.5000000000000001})
    assert str(found) == "step 7: column loss of the history: 0.5 then, 0.5000000000000001 now"


def test_the_first_difference_in_the_order_of_the_step_is_told() -> None:
    now = changed("after", "weights", to="?") | {"responses": ["1", "2", "3", "9"]}
    found = parting(LINE, now, ROW, ROW)
    assert found is not None and found.what == "responses"


def test_who_drew_is_told_in_words() -> None:
    assert drawn_words(LINE) == "4 by the weights after step 6"
    assert (
        drawn_words({"drawn": [[0, 3], [-1, 1]]})
        == "3 by the weights of the start, 1 by the weights of an unknown step"
    )
    assert drawn_words({"drawn": []}) == "nothing drawn"
