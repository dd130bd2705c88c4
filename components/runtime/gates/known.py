"""The expectations that a recipe may use, with their arguments: a plain table, so that planning need not import them.

A test compares it with Great Expectations itself.
"""

from __future__ import annotations

from components.contract.errors import InputError, UnknownName, did_you_mean
from components.contract.job import Expectation

_SHARED = {
    "@column": "column! row_condition condition_parser",
    "@values": "column! mostly row_condition condition_parser",
    "@pair": "column_A! column_B! mostly row_condition condition_parser",
    "@many": "column_list! mostly row_condition condition_parser",
    "@range": "min_value max_value strict_min strict_max",
}

_ARGUMENTS = {
    "expect_column_distinct_values_to_be_in_set": "@column value_set!",
    "expect_column_distinct_values_to_contain_set": "@column value_set!",
    "expect_column_distinct_values_to_equal_set": "@column value_set!",
    "expect_column_kl_divergence_to_be_less_than": "@column partition_object threshold internal_weight_holdout "
    "tail_weight_holdout bucketize_data min_value max_value",
    "expect_column_max_to_be_between": "@column @range",
    "expect_column_mean_to_be_between": "@column @range",
    "expect_column_median_to_be_between": "@column @range",
    "expect_column_min_to_be_between": "@column @range",
    "expect_column_most_common_value_to_be_in_set": "@column value_set! ties_okay",
    "expect_column_pair_values_a_to_be_greater_than_b": "@pair or_equal ignore_row_if",
    "expect_column_pair_values_to_be_equal": "@pair ignore_row_if",
    "expect_column_pair_values_to_be_in_set": "@pair value_pairs_set! ignore_row_if",
    "expect_column_proportion_of_non_null_values_to_be_between": "@column @range",
    "expect_column_proportion_of_unique_values_to_be_between": "@column @range",
    "expect_column_quantile_values_to_be_between": "@column quantile_ranges! allow_relative_error",
    "expect_column_stdev_to_be_between": "@column @range",
    "expect_column_sum_to_be_between": "@column @range",
    "expect_column_to_exist": "column! column_index",
    "expect_column_type_to_be": "column! type_!",
    "expect_column_unique_value_count_to_be_between": "@column @range",
    "expect_column_value_lengths_to_be_between": "@values @range",
    "expect_column_value_lengths_to_equal": "@values value!",
    "expect_column_value_z_scores_to_be_less_than": "@values threshold! double_sided!",
    "expect_column_values_to_be_between": "@values @range",
    "expect_column_values_to_be_dateutil_parseable": "@values",
    "expect_column_values_to_be_decreasing": "@values strictly",
    "expect_column_values_to_be_in_set": "@values value_set!",
    "expect_column_values_to_be_in_type_list": "@values type_list",
    "expect_column_values_to_be_increasing": "@values strictly",
    "expect_column_values_to_be_json_parseable": "@values",
    "expect_column_values_to_be_null": "@values",
    "expect_column_values_to_be_of_type": "@values type_!",
    "expect_column_values_to_be_unique": "@values",
    "expect_column_values_to_match_json_schema": "@values json_schema!",
    "expect_column_values_to_match_regex": "@values regex",
    "expect_column_values_to_match_regex_list": "@values regex_list! match_on",
    "expect_column_values_to_match_strftime_format": "@values strftime_format!",
    "expect_column_values_to_not_be_in_set": "@values value_set!",
    "expect_column_values_to_not_be_null": "@values",
    "expect_column_values_to_not_be_outliers": "@values method multiplier",
    "expect_column_values_to_not_match_regex": "@values regex!",
    "expect_column_values_to_not_match_regex_list": "@values regex_list!",
    "expect_compound_columns_to_be_unique": "@many ignore_row_if",
    "expect_multicolumn_sum_to_equal": "@many ignore_row_if sum_total!",
    "expect_multicolumn_values_to_be_equal": "@many ignore_row_if",
    "expect_select_column_values_to_be_unique_within_record": "@many ignore_row_if",
    "expect_table_column_count_to_be_between": "min_value max_value",
    "expect_table_column_count_to_equal": "value!",
    "expect_table_columns_to_match_ordered_list": "column_list",
    "expect_table_columns_to_match_set": "column_set exact_match",
    "expect_table_row_count_to_be_between": "@range row_condition condition_parser",
    "expect_table_row_count_to_equal": "value! row_condition condition_parser",
}
"""Name -> its arguments; "!" marks required ones."""

NEEDS_A_DATABASE = frozenset(
    {
        "expect_column_values_to_match_like_pattern",
        "expect_column_values_to_match_like_pattern_list",
        "expect_column_values_to_not_match_like_pattern",
        "expect_column_values_to_not_match_like_pattern_list",
        "expect_query_results_to_match_comparison",
        "expect_table_row_count_to_equal_other_table",
        "unexpected_rows_expectation",
    }
)
"""Expectations of Great Expectations that run only on SQL tables, not on rows."""


def known_expectations() -> tuple[str, ...]:
    """Return the names of all expectations that can be checked on rows, sorted."""
    return tuple(_ARGUMENTS)


def arguments(name: str) -> dict[str, bool]:
    """Return argument -> whether it is required, of a known expectation."""
    words = _ARGUMENTS[name]
    for family, members in _SHARED.items():
        words = words.replace(family, members)
    return {word.rstrip("!"): word.endswith("!") for word in words.split()}


def check_expectation(expectation: Expectation) -> None:
    """Raise InputError for an unknown expectation, an unknown argument or a missing one, with near misses."""
    name = expectation.type
    if name in NEEDS_A_DATABASE:
        raise InputError(f"expectation {name!r} runs on SQL databases only, not on rows")
    if name not in _ARGUMENTS:
        raise UnknownName("expectation", name, _ARGUMENTS)
    known = arguments(name)
    for given in expectation.kwargs:
        if given not in known:
            raise InputError(f"expectation {name!r}: unknown argument {given!r}{did_you_mean(given, known)}")
    missing = [argument for argument, required in known.items() if required and argument not in expectation.kwargs]
    if missing:
        raise InputError(f"expectation {name!r}: needs {', '.join(missing)} (arguments: {', '.join(known)})")
