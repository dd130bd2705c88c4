"""Expectations that a recipe adds: known by name without Great Expectations, run by it, told when they fail."""

from __future__ import annotations

import subprocess
import sys

import pytest

from components.contract.errors import InputError
from components.contract.job import Expectation
from components.runtime.gates import check_expectation, known_expectations
from components.runtime.gates.known import NEEDS_A_DATABASE, arguments
from tests.runtime.gates.conftest import prompts

CHEAP = """
import sys
from components.runtime.gates import GateProcess, known_expectations
print(*(name for name in ("great_expectations", "pandas", "numpy", "boto3") if name in sys.modules))
"""


def test_a_failing_expectation_of_a_recipe_is_named(gate, expect):
    result = gate(
        "prompts",
        prompts(9),
        expect("expect_table_row_count_to_be_between", min_value=10),
        expect("expect_column_mean_to_be_between", column="pass_rate", max_value=0.25),
        expect("expect_column_values_to_be_in_set", column="domain", value_set=["sum"]),
    )
    assert result.failures == [
        "there are 9 rows, not at least 10 (expectation expect_table_row_count_to_be_between, min_value=10)",
        "the mean of pass_rate is 0.5, not at most 0.25 "
        "(column pass_rate; expectation expect_column_mean_to_be_between, max_value=0.25)",
    ]


def test_nested_data_is_reached_by_dots_and_as_json_text(gate, expect):
    result = gate(
        "prompts",
        prompts(6),
        expect("expect_column_max_to_be_between", column="data.difficulty.depth", max_value=2),
        expect("expect_column_values_to_be_in_set", column="data.difficulty.depth", value_set=[0, 1]),
        expect("expect_column_values_to_match_regex", column="data", regex='^{"difficulty":'),
        expect("expect_column_values_to_match_regex", column="data.terms", regex=r"^\[\d,1\]$"),
    )
    source = "(column data.difficulty.depth; expectation expect_column_values_to_be_in_set, value_set=[0,1])"
    assert result.failures == [f"rows 3, 6 of 6: the data.difficulty.depth is 2, not one of [0,1] {source}"]


def test_a_column_that_is_not_there_is_told_with_the_near_miss(gate, expect):
    result = gate("prompts", prompts(3), expect("expect_column_max_to_be_between", column="pass_rte", max_value=1))
    assert len(result.failures) == 1
    assert result.failures[0].startswith("there is no column 'pass_rte'; did you mean 'pass_rate'?")
    assert "needed by expect_column_max_to_be_between)" in result.failures[0]


def test_a_share_of_exceptions_may_be_allowed(gate, expect):
    rows = prompts(10)
    rows[0]["pass_rate"] = 0.1
    strict = {"column": "pass_rate", "min_value": 0.5, "max_value": 1}
    assert gate("prompts", rows, expect("expect_column_values_to_be_between", **strict, mostly=0.9)).success
    assert not gate("prompts", rows, expect("expect_column_values_to_be_between", **strict)).success


def test_an_expectation_that_cannot_be_evaluated_fails_with_the_reason(gate, expect):
    result = gate("prompts", prompts(3), expect("expect_column_values_to_match_regex", column="prompt", regex="("))
    assert len(result.failures) == 1 and "cannot be checked: " in result.failures[0]


def test_values_of_the_wrong_type_are_an_input_error(gate, expect):
    with pytest.raises(InputError, match=r"output 'dataset': expectation 'expect_column_values_to_be_in_set': .*list"):
        gate("prompts", prompts(3), expect("expect_column_values_to_be_in_set", column="id", value_set="abc"))
    assert gate("prompts", prompts(3)).success  # the worker lives on


@pytest.mark.parametrize(
    ("type", "kwargs", "says"),
    [
        ("expect_column_values_to_be_betwen", {}, "did you mean 'expect_column_values_to_be_between'"),
        ("expect_column_values_to_be_between", {"colum": "id"}, "'colum'; did you mean 'column'"),
        ("expect_column_values_to_be_in_set", {"column": "id"}, "needs value_set"),
        ("unexpected_rows_expectation", {"unexpected_rows_query": "select 1"}, "SQL databases only"),
    ],
)
def test_names_and_arguments_are_checked_before_anything_runs(type, kwargs, says):
    with pytest.raises(InputError, match=says):
        check_expectation(Expectation(port="dataset", type=type, kwargs=kwargs))


def test_the_table_of_expectations_is_that_of_great_expectations():
    from great_expectations.expectations.expectation import Expectation as Base
    from great_expectations.expectations.registry import (
        get_expectation_impl,
        list_registered_expectation_implementations,
    )

    general = {*Base.__fields__, "batch_id", "library_metadata"}
    theirs = {
        name: {
            key: field.required for key, field in get_expectation_impl(name).__fields__.items() if key not in general
        }
        for name in list_registered_expectation_implementations()
    }
    ours = {name: arguments(name) for name in known_expectations()}
    assert ours == {name: fields for name, fields in theirs.items() if name not in NEEDS_A_DATABASE}
    assert set(theirs) >= NEEDS_A_DATABASE
    assert len(ours) == 52 and list(ours) == sorted(ours)


def test_planning_does_not_import_great_expectations():
    done = subprocess.run([sys.executable, "-c", CHEAP], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
