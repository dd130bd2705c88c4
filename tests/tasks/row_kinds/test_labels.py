"""Labelled and stepwise rows: TRL's columns, what is written is read, and what a bad one is told."""

from __future__ import annotations

from typing import Any

import pytest

from components.contract.errors import InputError
from components.tasks.row_kinds.labelled import Labelled, labelled_of, unpaired
from components.tasks.row_kinds.preferences import Preference
from components.tasks.row_kinds.reading import kind_of
from components.tasks.row_kinds.stepwise import Stepwise, stepwise_of

LABELLED = {"prompt": "Sky?", "completion": "Blue.", "label": True}
STEPS = {"prompt": "2+2+2?", "completions": ["2+2=4", "4+2=7"], "labels": [True, False]}


def test_labels_and_scores_are_read_and_written() -> None:
    assert labelled_of(LABELLED) == Labelled(task="Sky?", completion="Blue.", label=True)
    whole = Labelled(task="Sky?", completion="Blue.", label=False, score=-1.5, rationale="Grey today.", weight=0.5)
    assert labelled_of(whole.row()) == whole
    assert labelled_of({**LABELLED, "label": 0}).label is False
    assert labelled_of({**LABELLED, "rationale": ""}).rationale is None
    asked = {"prompt": [{"role": "user", "content": "Sky?"}], "completion": [{"role": "assistant", "content": "Blue."}]}
    assert labelled_of({**asked, "score": 2}) == Labelled(task="Sky?", completion="Blue.", score=2.0)


def test_pairs_are_twice_as_many_labelled_rows_as_trl_unpairs_them() -> None:
    trl = pytest.importorskip("trl.data_utils")
    pairs = [
        Preference(task=f"{at}?", chosen=f"good {at}", rejected=f"bad {at}", domain="d", weight=2.0, margin=1.0)
        for at in range(3)
    ]
    found = list(unpaired(iter(pairs)))
    columns = {name: [pair.row()[name] for pair in pairs] for name in ("prompt", "chosen", "rejected")}
    assert {
        "prompt": [row.task for row in found],
        "completion": [row.completion for row in found],
        "label": [row.label for row in found],
    } == trl._unpair_row(columns)
    assert {(row.weight, row.domain) for row in found} == {(2.0, "d")}


def test_steps_are_read_and_written() -> None:
    row = stepwise_of(STEPS)
    assert row == Stepwise(task="2+2+2?", completions=("2+2=4", "4+2=7"), labels=(1.0, 0.0))
    assert row.row() == STEPS
    valued = Stepwise(task="?", completions=("a",), labels=(0.25,), id="x", domain="d")
    assert stepwise_of(valued.row()) == valued


def test_kinds_are_told_by_columns() -> None:
    assert kind_of(LABELLED) == "labelled"
    assert kind_of(STEPS) == "stepwise"
    assert kind_of({"prompt": "?", "response": "!"}) is None


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"prompt": "Sky?", "completion": "Blue."}, "no label and no score"),
    ({"prompt": "Sky?", "label": True}, "no completion: a row of labelled has completion"),
    ({**LABELLED, "label": "good"}, "label 'good' is neither true nor false"),
    ({**LABELLED, "label": 2}, "label 2 is neither true nor false"),
    ({**LABELLED, "score": "high"}, "score 'high' is no finite number"),
    ({**LABELLED, "score": True}, "score True is no finite number"),
    ({**LABELLED, "score": 1e39}, r"score 1e\+39 is too large: losses are computed in float32"),
    ({**LABELLED, "completion": " "}, "completion is blank"),
    ({**LABELLED, "prompt": ""}, "no prompt and no messages"),
    ({**LABELLED, "rationale": ["x"]}, "rationale is .*, expected text"),
    ({**STEPS, "labels": [True]}, "2 completions and 1 labels; each step has one label"),
    ({**STEPS, "labels": []}, r"labels \[\] is no list with one entry for each step"),
    ({**STEPS, "labels": [True, 2]}, r"labels\[1\] 2 is neither true nor false, nor a value from 0 to 1"),
    ({**STEPS, "labels": [True, "no"]}, r"labels\[1\] 'no'"),
    ({**STEPS, "completions": ["a", ""]}, r"completions\[1\] is blank"),
    ({**STEPS, "completions": "ab"}, "completions 'ab' is no list"),
    ({"prompt": "?", "labels": [True]}, "no completions: a row of stepwise has completions, labels"),
]


@pytest.mark.parametrize(("row", "told"), WRONG)
def test_a_bad_row_gets_one_line(row: dict[str, Any], told: str) -> None:
    read = stepwise_of if "labels" in row else labelled_of
    with pytest.raises(InputError, match=told) as raised:
        read(row)
    assert "\n" not in str(raised.value)
