"""Exercises made of worked solutions: gaps, orders and segments, against solutions put together again by hand."""

from __future__ import annotations

import json
import re
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest

from components.contract.operators import OperatorRefused, OperatorSpec
from components.tasks.item import Item
from components.tasks.source import SourceRequest, SourceRow
from components.tasks.verify import Outcome, verify
from tests.tasks.test_worlds import SUMS, items, write


def worked(name: str, count: int = 40, **spec: Any) -> list[Item]:
    return items({"name": name, "source": SUMS, "expert": "chain_sum_trace", **spec}, count)


def test_gaps_filled_in_give_a_right_solution() -> None:
    for item in worked("mask_steps", most=2):
        fills = item.data["fills"]
        solution = re.findall(r"\S+=\S+", item.prompt)
        assert " ".join(solution).count("_") == len(fills) <= 2 and item.answer == " ".join(fills)
        whole = " ".join(solution)
        for fill in fills:
            whole = whole.replace("_", fill, 1)
        for step in whole.split():
            left, right = step.split("=")
            assert eval(left.replace("--", "- -").replace("+-", "+ -")) == int(right)  # our own sum
        assert verify(item, f"<answer>{item.answer}").right
        wrong = " ".join(str(int(fill) + (place == 0)) for place, fill in enumerate(fills))
        assert verify(item, f"<answer>{wrong}").score == pytest.approx(1 - 1 / len(fills))


@pytest.mark.parametrize(
    "text, score", [("11 8", 1.0), ("11, 8.0", 1.0), ("11 9", 0.5), ("11", 0.0), ("11 8 8", 0.0), ("", 0.0)]
)
def test_fills_by_hand(text: str, score: float) -> None:
    item = Item(id="f", domain="d", prompt="p", answer="11 8", verifier="fills", data={"fills": ["11", "8"]})
    assert verify(item, f"<answer>{text}").score == score


def test_steps_put_in_the_order_of_the_answer_are_the_solution() -> None:
    orders = set()
    for item in worked("shuffle_steps"):
        shown = dict(step.split(":") for step in re.findall(r"[a-z]:\S+", item.prompt))
        steps = [shown[name] for name in item.answer]
        for before, after in pairwise(steps):
            assert after.startswith(before.split("=")[1])
        assert verify(item, f"<answer>{item.answer}").right
        assert verify(item, f"<answer>{', '.join(item.answer.upper())}").right
        orders.add(item.answer)
    assert {"ab", "ba"} <= orders  # the right order may stand there already


@pytest.mark.parametrize("given", ["".join(order) for order in permutations("abc")])
def test_orders_by_hand(given: str) -> None:
    item = Item(id="o", domain="d", prompt="p", answer="bac", verifier="permutation")
    misplaced = {"abc": 2, "acb": 3, "bac": 0, "bca": 2, "cab": 2, "cba": 3}[given]
    inversions = {"abc": 1, "acb": 2, "bac": 0, "bca": 1, "cab": 3, "cba": 2}[given]
    assert verify(item, f"<answer>{given}").score == pytest.approx(1 - misplaced / 3)
    counted = item.model_copy(update={"data": {"settings": {"distance": "inversions"}}})
    assert verify(counted, f"<answer>{given}").score == pytest.approx(1 - inversions / 3)


@pytest.mark.parametrize("text", ["", "ab", "abca", "aab", "the answer", "abd"])
def test_what_is_no_order_scores_nothing(text: str) -> None:
    verdict = verify(Item(id="o", domain="d", prompt="p", answer="bac", verifier="permutation"), f"<answer>{text}")
    assert (verdict.outcome, verdict.score) == (Outcome.WRONG, 0.0)


def segments_of(tmp_path: Path, texts: list[str], **config: Any) -> list[SourceRow]:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "rows.jsonl").write_text("".join(json.dumps({"text": text, "domain": "d"}) + "\n" for text in texts))
    source = OperatorSpec.model_validate({"name": "segments", **config}).resolve("source")
    return list(source(SourceRequest(0, 1 << 20, tmp_path, (folder,))).rows)


def test_segments_are_the_next_one_or_the_one_between(tmp_path: Path) -> None:
    texts = [f"Take {n}. Add two. Now {n + 2}. Done." for n in range(200)] + ["One only.", "", " \n "]
    rows = segments_of(tmp_path, texts)
    middle = [row for row in rows if " _ " in row.prompt]
    assert len(rows) == 200 and 60 < len(middle) < 140
    for row in rows:
        number = int(row.prompt.split()[1].rstrip("."))
        parts = [f"Take {number}.", "Add two.", f"Now {number + 2}.", "Done."]
        place = parts.index(row.answer)
        if row in middle:
            assert row.prompt == f"{' '.join(parts[:place])} _ {parts[place + 1]}"
            assert row.data["following"] == [row.answer]
        else:
            assert row.prompt == " ".join(parts[:place]) and row.data["following"] == parts[place : place + 3]


def test_long_segments_are_left_out(tmp_path: Path) -> None:
    assert not segments_of(tmp_path, [f"A. {'b' * 300}."], max_chars=200)


def test_other_notations_say_the_same_steps() -> None:
    item = Item(
        id="s", domain="d", prompt="4 + 7 - 3", answer="8", verifier="reasoning_gym",
        data={"metadata": {"expression": "4 + 7 - 3"}},
    )  # fmt: skip
    assert write(item, name="sum_notation") == "<think>4 11 8<answer>8"
    assert write(item, name="sum_notation", notation="arrows") == "<think>4+7>11-3>8<answer>8"
    sloppy = write(item, name="sum_notation", step_error_rate=1.0)
    answer = sloppy.rpartition(">")[2]
    assert answer != "8" and sloppy.split("<answer>")[0].endswith(f" {answer}")


def test_exercises_refuse_what_they_cannot_use() -> None:
    with pytest.raises(OperatorRefused, match="least 3 is above most 2"):
        worked("mask_steps", least=3, most=2)
    with pytest.raises(OperatorRefused, match="'jsonl' ends"):
        items({"name": "shuffle_steps", "source": {"name": "jsonl", "path": "x.jsonl"}}, 1)
