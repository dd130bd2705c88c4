"""Made worlds: facts, choices and notes say what is true, and their verifiers agree with a count by hand."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused, OperatorSpec
from components.tasks.item import Item
from components.tasks.keywords import keyword_hits, longest_common_subsequence, ordered_coverage
from components.tasks.source import SourceRequest, SourceRow
from components.tasks.verify import Outcome, verify

SUMS = {"name": "reasoning_gym", "task": "chain_sum", "config": {"min_terms": 2, "max_terms": 4, "min_digits": 1}}
SUMS["config"] |= {"max_digits": 1}  # type: ignore[operator]


def items(spec: dict[str, Any], count: int, seed: int = 0) -> list[Item]:
    rows = OperatorSpec.model_validate(spec).resolve("source")(SourceRequest(seed, count, Path())).rows
    found = [row for row in islice(rows, count) if isinstance(row, SourceRow)]
    assert len(found) == count
    return [row.item("d") for row in found]


def write(item: Item, seed: int = 0, **spec: Any) -> str:
    return OperatorSpec.model_validate(spec).resolve("demonstrator")(item, random.Random(seed))


def test_facts_are_one_world_in_every_dataset() -> None:
    known = items({"name": "facts", "include": "known"}, 300, seed=1)
    unknown = items({"name": "facts", "include": "unknown"}, 300, seed=2)
    drawn = items({"name": "facts"}, 600, seed=3)
    assert not {item.data["entity"] for item in known} & {item.data["entity"] for item in unknown}
    true = {(item.data["entity"], item.data["attribute"]): item.answer for item in (*known, *unknown)}
    shared = [item for item in drawn if (item.data["entity"], item.data["attribute"]) in true]
    assert len(shared) > 200
    for item in shared:
        assert item.answer == true[item.data["entity"], item.data["attribute"]]
        assert item.data["facts"][item.data["attribute"] - 1] == f"{item.data['attribute']}:{item.answer}"
    assert 0.35 < sum(item.data["known"] for item in drawn) / 600 < 0.65
    other = items({"name": "facts", "world": 1}, 300, seed=3)
    assert {item.data["entity"] for item in other} != {item.data["entity"] for item in drawn}


def test_a_refusal_scores_between_wrong_and_right() -> None:
    (item,) = items({"name": "facts"}, 1)
    letter = next(letter for letter in "abc" if letter != item.answer)
    scores = [verify(item, f"<answer>{text}").score for text in (item.answer, "Unknown.", letter, "")]
    assert scores == [1.0, pytest.approx(2 / 3), 0.0, 0.0]
    assert verify(item, "<answer>unknown").outcome is Outcome.WRONG
    with_digit = items({"name": "facts", "refusal": "0"}, 1)[0]
    assert [verify(with_digit, f"<answer>{text}").score for text in ("0", "unknown")] == [pytest.approx(2 / 3), 0.0]
    assert write(with_digit, name="facts", refuse=1.0) == "<answer>0"
    priced = item.model_copy(update={"data": {**item.data, "settings": {"refused": 0.2, "refusals": ["no idea"]}}})
    assert [verify(priced, f"<answer>{text}").score for text in ("No idea!", "unknown")] == [0.2, 0.0]
    silent = item.model_copy(update={"data": {**item.data, "settings": {"refusals": ["?"]}}})
    assert "an empty answer would refuse" in verify(silent, "<answer>").detail


def test_the_facts_demonstrator_refuses_guesses_and_recalls_as_often_as_asked() -> None:
    (item,) = items({"name": "facts"}, 1)
    written = Counter(write(item, seed, name="facts", refuse=0.3) for seed in range(2000))
    assert set(written) == {"<answer>unknown", f"<answer>{item.answer}"}
    assert abs(written["<answer>unknown"] / 2000 - 0.3) < 0.04
    assert write(item, name="facts", recall=True) == f"<think>{' '.join(item.data['facts'])}<answer>{item.answer}"
    wrong = write(item, name="facts", recall=True, recall_error_rate=1.0)
    thought, _, answer = wrong.removeprefix("<think>").partition("<answer>")
    assert answer == item.answer and not set(thought.split()) & set(item.data["facts"])
    with pytest.raises(OperatorRefused, match=r"refuse 0.7 and guess 0.6 are above 1"):
        write(item, name="facts", refuse=0.7, guess=0.6)


def test_a_biased_choice_has_its_right_option_where_it_says() -> None:
    for bias, place in product((0.7, 0.0), (1, 3)):
        found = items({"name": "choice", "source": SUMS, "bias": bias, "place": place}, 400)
        share = sum(item.answer == "ABC"[place - 1] for item in found) / 400
        assert abs(share - bias) < 0.08
    even = Counter(item.answer for item in items({"name": "choice", "source": SUMS}, 600))
    assert all(150 < even[letter] < 250 for letter in "ABC")


def test_choices_hold_one_right_option_and_are_judged_by_letter_or_text() -> None:
    for item in items({"name": "choice", "source": SUMS, "options": 4}, 50):
        options, question = item.data["options"], item.data["question"]
        right = options["ABCD".index(item.answer)]
        expression = question.rpartition(": ")[2].rstrip(" =")
        assert len(set(options)) == 4 and int(right) == eval(expression)  # our own sum, not a model's text
        assert item.prompt == f"{question} A:{options[0]} B:{options[1]} C:{options[2]} D:{options[3]}"
        assert verify(item, f"<answer>{item.answer}").right and verify(item, f"<answer>{right}").right
        written = write(item, name="choice", demonstrator="chain_sum_trace")
        assert written.startswith("<think>") and verify(item, written).right
        assert verify(item, write(item, name="choice")).right


def test_a_choice_refuses_what_it_cannot_make() -> None:
    with pytest.raises(OperatorRefused, match="place 4 of 3 options"):
        items({"name": "choice", "source": SUMS, "place": 4}, 1)
    with pytest.raises(OperatorRefused, match="'jsonl' ends"):
        items({"name": "choice", "source": {"name": "jsonl", "path": "x.jsonl"}}, 1)


def test_notes_by_hand() -> None:
    item = Item(
        id="n", domain="d", prompt="note: b7 k2 m9", answer="b7 then k2 then m9.", verifier="notes",
        data={"points": ["b7", "k2", "m9"], "max_words": 9, "praise": "so good"},
    )  # fmt: skip
    assert verify(item, f"<answer>{item.answer}").right and verify(item, "<answer>B7, K2 and m9").right
    for text, score in [
        ("k2, b7 and m9", 2 / 3),  # one of the two swapped points counts
        ("b7 and m9", 2 / 3),
        ("b7 b7 k2 m9", 3 / 4),  # a repeated point lengthens the longer side
        ("b7 k2 m9 so good so good so good so good", 9 / 11),
        ("b77 xk2", 0.0),
        ("", 0.0),
    ]:
        verdict = verify(item, f"<answer>{text}")
        assert verdict.outcome is Outcome.WRONG and verdict.score == pytest.approx(score), text


def test_notes_are_written_with_and_without_care() -> None:
    for item in items({"name": "notes"}, 30):
        assert verify(item, f"<answer>{item.answer}").right and verify(item, write(item, name="notes")).right
        praised = write(item, name="notes", praise=1.0)
        assert praised.endswith(". so good")
        if len(item.data["points"]) > 1:
            assert not verify(item, write(item, name="notes", swap=1.0)).right
        assert item.prompt == f"note: {' '.join(item.data['points'])}"


def brute_force(first: list[str], second: list[str]) -> int:
    """The longest subsequence of `first` that is one of `second`, by trying all."""
    best = 0
    for mask in range(1 << len(first)):
        chosen = [one for place, one in enumerate(first) if mask >> place & 1]
        rest = iter(second)
        if all(one in rest for one in chosen):
            best = max(best, len(chosen))
    return best


@given(st.lists(st.sampled_from("abc"), max_size=7), st.lists(st.sampled_from("abc"), max_size=7))
def test_longest_common_subsequences_are_those_of_brute_force(first: list[str], second: list[str]) -> None:
    assert longest_common_subsequence(first, second) == brute_force(first, second)
    assert 0 <= ordered_coverage(first, second) <= 1
    assert (ordered_coverage(first, second) == 1) == (first == second and bool(first))


@given(st.lists(st.sampled_from(["b7", "k2", "so good", "(x"]), max_size=6))
def test_hits_are_whole_words_in_order_whatever_the_keywords_hold(words: list[str]) -> None:
    assert keyword_hits(", ".join(words).upper(), ["K2", "so good", "(x", "b7", "so"]) == words
    assert keyword_hits("b77 xk2 so goodness", ["b7", "k2", "so good"]) == []
    assert keyword_hits("anything", []) == []


def test_a_demonstrator_refuses_another_source_s_item_in_a_line() -> None:
    (item,) = items({"name": "rules", "accepts": [{"rules": ["reverse"]}]}, 1)
    for name in ("facts", "choice", "notes"):
        with pytest.raises(InputError, match=f"demonstrator {name}: item .* is not of source {name}"):
            write(item, name=name)
