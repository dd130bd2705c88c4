"""What a failed check says: where, what is wrong with the rows, then the expectation for those who look it up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from components.contract.artifacts import canonical_json
from components.contract.errors import did_you_mean
from components.contract.terminal import short_line
from components.runtime.gates.suites import NOT_BLANK

EXISTS = "expect_column_to_exist"
SHOWN = 80
Kwargs = Mapping[str, Any]


def describe_failure(entry: Mapping[str, Any], columns: Iterable[str]) -> str:
    """Return one line: the rows, what is wrong with them, and in brackets column and expectation.

    "row 17: the answer is empty (column answer; expectation expect_column_values_to_match_regex)". `columns` are those
    that the rows have.
    """
    kwargs, result = entry["kwargs"], entry["result"]
    if entry["error"]:
        return f"cannot be checked: {short_line(entry['error'], 4 * SHOWN)} {_source(entry)}"
    if entry["type"] == EXISTS:
        return f"there is no column {kwargs['column']!r}{did_you_mean(kwargs['column'], columns)} {_source(entry)}"
    if "unexpected_count" not in result:
        return f"{_of_all(entry['type'], kwargs, result.get('observed_value'))} {_source(entry)}"
    return f"{_place(result)}: {_of_rows(entry['type'], kwargs, result['samples'])} {_source(entry)}"


def _place(result: Mapping[str, Any]) -> str:
    """Return which rows: "row 17", or "rows 3, 4 and 5 more of 100"; without positions, how many."""
    count, total, rows = result["unexpected_count"], result["element_count"], result["rows"]
    if not rows:
        return f"{count} of {total} rows"
    rest = f" and {count - len(rows)} more" if count > len(rows) else ""
    return f"row{'' if count == 1 else 's'} {', '.join(map(str, rows))}{rest} of {total}"


def _of_rows(type: str, kwargs: Kwargs, samples: list[Any]) -> str:
    shown = ", ".join(dict.fromkeys(map(_short, samples)))
    column, words = kwargs.get("column"), _ROWS.get(type)
    if column is None:
        columns = " and ".join(map(str, kwargs.get("column_list", ()))) or "the columns"
        return f"{columns} are {shown}"
    return f"the {column} {words(kwargs, shown) if words else f'is {shown}'}"


def _of_all(type: str, kwargs: Kwargs, observed: Any) -> str:
    if type == "expect_table_row_count_to_be_between":
        return f"there are {_short(observed)} rows, not {_between(kwargs)}"
    name = type.removeprefix("expect_column_").partition("_to_be_")[0]
    about = f"the {name} of {kwargs['column']}" if "column" in kwargs and name != type else "the table's value"
    return f"{about} is {_short(observed)}{f', not {_between(kwargs)}' if _bounds(kwargs) else ''}"


def _matches(kwargs: Kwargs, shown: str) -> str:
    return "is empty" if kwargs["regex"] == NOT_BLANK else f"is {shown}, which does not match {kwargs['regex']}"


_ROWS: dict[str, Callable[[Kwargs, str], str]] = {
    "expect_column_values_to_not_be_null": lambda kwargs, shown: "is missing",
    "expect_column_values_to_match_regex": _matches,
    "expect_column_values_to_be_of_type": lambda kwargs, shown: f"is {shown}, not of type {kwargs['type_']}",
    "expect_column_values_to_be_in_set": lambda kwargs, shown: f"is {shown}, not one of {_short(kwargs['value_set'])}",
    "expect_column_values_to_be_unique": lambda kwargs, shown: f"is there more than once: {shown}",
    "expect_column_values_to_be_between": lambda kwargs, shown: f"is {shown}, not {_between(kwargs)}",
    "expect_column_value_lengths_to_be_between": lambda kwargs, shown: f"is not {_between(kwargs)} long: {shown}",
}


def _bounds(kwargs: Kwargs) -> tuple[Any, Any] | None:
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    return None if low is None and high is None else (low, high)


def _between(kwargs: Kwargs) -> str:
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"from {low} to {high}"


def _source(entry: Mapping[str, Any]) -> str:
    """Return column, expectation and, for one of the recipe, its arguments, in brackets."""
    kwargs = entry["kwargs"]
    column = [f"column {kwargs['column']}"] if "column" in kwargs else []
    own = entry["origin"] == "recipe"
    given = [f"{name}={_short(value)}" for name, value in sorted(kwargs.items()) if own and name != "column"]
    expectation = ", ".join([f"expectation {entry['type']}", *given])
    needed = [f"needed by {entry['needed_by']}"] if entry["needed_by"] else []
    return f"({'; '.join([*column, expectation, *needed])})"


def _short(value: Any) -> str:
    text = canonical_json(value).decode()
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
