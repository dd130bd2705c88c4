"""Default expectations on the rows of every dataset, by kind. A recipe's own expectations are added."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from components.contract.operator_files.names import travel_name
from components.contract.registry import operators

MAX_PROMPT_CHARS = 200_000
MAX_RESPONSE_CHARS = 2_000_000
MAX_TEXT_CHARS = 20_000_000
NOT_BLANK = r"\S"
OUTCOMES = ("right", "wrong", "failed", "unscored")
SELF_CONTAINED_VERIFIERS = ("reasoning_gym", "unlabelled")
"""Verifiers that judge by the item's data, or not at all; an answer may be empty."""


@dataclass(frozen=True)
class GateCheck:
    """One expectation of a suite."""

    type: str
    kwargs: dict[str, Any]
    origin: str = "default"
    """Who asked for it: "default" or "recipe"."""
    reads: str | None = None
    """A further column that its row condition reads."""


def default_suite(kind: str, columns: set[str], verifiers: Iterable[object] = ()) -> list[GateCheck]:
    """Return the checks for rows of `kind` with these columns; a kind without its own suite only needs rows.

    `verifiers` are those of the rows: names of functions in users' files are not registered. A missing required column
    fails only its existence check.
    """
    required, conditions = _SUITES.get(kind, _rows)()
    if in_files := sorted({name for name in verifiers if isinstance(name, str) and travel_name(name)}):
        conditions = [_with_verifiers(check, in_files) for check in conditions]
    return [
        *(_check("expect_column_to_exist", name) for name in required),
        *(check for check in conditions if {check.kwargs.get("column"), check.reads} - {None} <= columns),
    ]


def _with_verifiers(check: GateCheck, names: list[str]) -> GateCheck:
    if check.kwargs.get("column") != "verifier" or "value_set" not in check.kwargs:
        return check
    return replace(check, kwargs={**check.kwargs, "value_set": [*check.kwargs["value_set"], *names]})


def _prompts() -> tuple[list[str], list[GateCheck]]:
    required = ["id", "domain", "prompt", "answer", "verifier"]
    return required, [*_table(1), _check("expect_column_values_to_be_unique", "id"), *_items("id"), *_pass_rates()]


def _demonstrations() -> tuple[list[str], list[GateCheck]]:
    required = ["id", "domain", "prompt", "answer", "verifier", "response"]
    pair = GateCheck("expect_compound_columns_to_be_unique", {"column_list": ["id", "response"]})
    return required, [*_table(1), pair, *_items("id"), *_text("response", MAX_RESPONSE_CHARS), *_pass_rates()]


def _corpus() -> tuple[list[str], list[GateCheck]]:
    unique = _check("expect_column_values_to_be_unique", "id")
    return ["id", "domain", "text"], [
        *_table(1), *_present("id"), unique, *_present("domain"), *_text("text", MAX_TEXT_CHARS),
    ]  # fmt: skip


def _rollouts() -> tuple[list[str], list[GateCheck]]:
    required = ["prompt_id", "domain", "step", "prompt", "response", "reward", "outcome", "num_tokens"]
    return [*required, "verifier", "answer"], [
        *_table(0),
        *_items("prompt_id"),
        # a policy may write nothing: an empty response is valid
        *_present("response"),
        _check("expect_column_value_lengths_to_be_between", "response", max_value=MAX_RESPONSE_CHARS),
        _check("expect_column_values_to_be_in_set", "outcome", value_set=list(OUTCOMES)),
        *_present("outcome"),
        _where('outcome != "failed"', "outcome", _check("expect_column_values_to_not_be_null", "reward")),
        *_counts("step"),
        *_counts("num_tokens"),
    ]


def _rows() -> tuple[list[str], list[GateCheck]]:
    return [], _table(1)


_SUITES = {"prompts": _prompts, "demonstrations": _demonstrations, "corpus": _corpus, "rollouts": _rollouts}


def _items(identifier: str) -> list[GateCheck]:
    """Return the checks that every verifiable item must pass, whatever its kind."""
    excepted = " and ".join(f'verifier != "{name}"' for name in SELF_CONTAINED_VERIFIERS)
    return [
        *_present(identifier),
        *_present("domain"),
        *_text("prompt", MAX_PROMPT_CHARS),
        _check("expect_column_values_to_not_be_null", "answer"),
        _where(excepted, "verifier", _check("expect_column_values_to_match_regex", "answer", regex=NOT_BLANK)),
        _check("expect_column_values_to_not_be_null", "verifier"),
        _check("expect_column_values_to_be_in_set", "verifier", value_set=operators("verifier").names()),
    ]


def _present(column: str) -> list[GateCheck]:
    return [_check("expect_column_values_to_not_be_null", column)]


def _text(column: str, max_chars: int) -> list[GateCheck]:
    return [
        *_present(column),
        _check("expect_column_values_to_be_of_type", column, type_="str"),
        _check("expect_column_values_to_match_regex", column, regex=NOT_BLANK),
        _check("expect_column_value_lengths_to_be_between", column, max_value=max_chars),
    ]


def _counts(column: str) -> list[GateCheck]:
    return [*_present(column), _check("expect_column_values_to_be_between", column, min_value=0)]


def _pass_rates() -> list[GateCheck]:
    return [_check("expect_column_values_to_be_between", "pass_rate", min_value=0, max_value=1)]


def _table(min_rows: int) -> list[GateCheck]:
    return [GateCheck("expect_table_row_count_to_be_between", {"min_value": min_rows})]


def _where(condition: str, reads: str, check: GateCheck) -> GateCheck:
    kwargs = {**check.kwargs, "row_condition": condition, "condition_parser": "pandas"}
    return replace(check, kwargs=kwargs, reads=reads)


def _check(type: str, column: str, **kwargs: Any) -> GateCheck:
    return GateCheck(type, {"column": column, **kwargs})
