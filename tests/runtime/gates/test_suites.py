"""The suites of each kind, run by Great Expectations on real rows."""

from __future__ import annotations

import json

import pytest

from tests.runtime.gates.conftest import corpus, demonstrations, prompts, rollouts, write_rows

KINDS = {"prompts": prompts, "demonstrations": demonstrations, "corpus": corpus, "rollouts": rollouts}


@pytest.mark.parametrize("kind", KINDS)
def test_good_rows_pass(gate, kind):
    result = gate(kind, KINDS[kind](20))
    assert (result.success, result.failures) == (True, [])
    assert result.statistics["rows"] == 20 and result.statistics["checks"] > 6


def test_each_planted_bad_row_is_found_with_its_count_value_and_place(gate):
    rows = prompts(100)
    rows[3]["id"] = rows[2]["id"]
    rows[5]["id"] = None
    rows[7]["prompt"] = " \n"
    rows[8]["prompt"] = "x" * 200_001
    del rows[9]["answer"]
    rows[10]["answer"] = ""
    rows[11]["verifier"] = "numerik"
    rows[12]["pass_rate"] = 1.5
    rows[13]["prompt"] = 7
    del rows[14]["domain"]

    result = gate("prompts", rows)

    assert not result.success
    value = "expectation expect_column_values_to"
    told = [
        f'rows 3, 4 of 100: the id is there more than once: "sum-2" (column id; {value}_be_unique)',
        f"row 6 of 100: the id is missing (column id; {value}_not_be_null)",
        f"row 15 of 100: the domain is missing (column domain; {value}_not_be_null)",
        f"row 8 of 100: the prompt is empty (column prompt; {value}_match_regex)",
        f"row 14 of 100: the prompt is 7, not of type str (column prompt; {value}_be_of_type)",
        "row 9 of 100: the prompt is not at most 200000 long: ",
        f"row 10 of 100: the answer is missing (column answer; {value}_not_be_null)",
        f"row 11 of 100: the answer is empty (column answer; {value}_match_regex)",
        'row 12 of 100: the verifier is "numerik", not one of ["',
        f"row 13 of 100: the pass_rate is 1.5, not from 0 to 1 (column pass_rate; {value}_be_between)",
    ]
    assert len(result.failures) == len(told)
    for words in told:
        assert any(failure.startswith(words) for failure in result.failures), (words, result.failures)


def test_a_missing_column_fails_once_and_says_which_are_there(gate):
    rows = [{key: value for key, value in row.items() if key != "verifier"} for row in prompts(5)]
    result = gate("prompts", rows)
    assert len(result.failures) == 1
    assert result.failures[0].startswith("there is no column 'verifier'")
    assert "pass_rate" in result.failures[0]


def test_an_answer_may_be_empty_where_the_verifier_judges_by_data(gate):
    rows = prompts(3)
    rows[0] |= {"answer": "", "verifier": "reasoning_gym"}
    assert gate("prompts", rows).success


def test_demonstrations_may_share_a_prompt_but_not_the_response_too(gate):
    rows = demonstrations(4)
    rows[1] = {**rows[0], "response": "another way"}
    assert gate("demonstrations", rows).success
    rows[2] = dict(rows[0])
    result = gate("demonstrations", rows)
    assert len(result.failures) == 1 and "rows 1, 3 of 4: " in result.failures[0]


def test_rollouts_are_judged_by_outcome(gate):
    rows = rollouts(10)
    rows[3]["outcome"] = "maybe"
    rows[4]["reward"] = None
    rows[5]["num_tokens"] = -1
    assert [failure.partition(" (column")[0] for failure in gate("rollouts", rows).failures] == [
        'row 4 of 10: the outcome is "maybe", not one of ["right","wrong","failed","unscored"]',
        "row 5 of 9: the reward is missing",
        "row 6 of 10: the num_tokens is -1, not at least 0",
    ]


@pytest.mark.parametrize(
    ("kind", "passes"), [("prompts", False), ("corpus", False), ("rows", False), ("rollouts", True)]
)
def test_no_rows_are_a_fault_of_a_dataset_and_none_of_rollouts(gate, kind, passes):
    result = gate(kind, [])
    assert result.success == passes
    assert result.failures == (
        [] if passes else ["there are 0 rows, not at least 1 (expectation expect_table_row_count_to_be_between)"]
    )


def test_a_kind_without_a_suite_needs_rows_only(gate):
    assert gate("something", [{"x": 1}, {"y": [1, 2]}]).success


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"id": 1}\n{"id"\n', "rows.jsonl:2 is not a line of JSON"),
        ('{"id": 1}\n\n[1]\n', "rows.jsonl:3 is list, not an object"),
        (None, "there is no rows.jsonl and no rows-*.jsonl"),
    ],
)
def test_rows_that_cannot_be_read_fail_by_file_and_line(gate, text, says):
    if text is not None:
        (gate.folder / "rows.jsonl").write_text(text)
    result = gate.worker.check("dataset", gate.folder, "prompts", [], gate.report)
    assert not result.success and says in result.failures[0]
    assert json.loads((gate.report / "results.json").read_text())["failures"] == result.failures


def test_shards_are_read_in_their_order(gate):
    for shard, part in (("00", prompts(2)), ("01", prompts(1))):
        write_rows(gate.folder, part)
        (gate.folder / "rows.jsonl").rename(gate.folder / f"rows-{shard}.jsonl")
    result = gate.worker.check("dataset", gate.folder, "prompts", [], gate.report)
    assert result.failures == [
        'rows 1, 3 of 3: the id is there more than once: "sum-0" '
        "(column id; expectation expect_column_values_to_be_unique)"
    ]
