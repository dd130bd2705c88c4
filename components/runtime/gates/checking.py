"""Running a suite with Great Expectations. Runs in the gate's worker only: the import takes seconds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations.compatibility.pydantic import ValidationError
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
from great_expectations.expectations.registry import get_expectation_impl

from components.contract.artifacts import canonical_json
from components.contract.errors import InputError
from components.contract.job import Expectation
from components.runtime.gates.known import check_expectation
from components.runtime.gates.page import write_page
from components.runtime.gates.suites import GateCheck, default_suite
from components.runtime.gates.table import BadRows, read_rows, to_table
from components.runtime.gates.words import EXISTS, describe_failure

SAMPLES = 5
COLUMN_KEYS = ("column", "column_A", "column_B")
RESULTS = "results.json"


def check_rows(port: str, folder: Path, kind: str, expectations: list[Expectation], report: Path) -> dict[str, Any]:
    """Check the rows in `folder`, write results.json and index.html to `report`, and return the results.

    Raises InputError for an expectation that Great Expectations does not know or that has wrong arguments.
    """
    asked = [_asked(expectation) for expectation in expectations]
    head = {"port": port, "kind": kind, "great_expectations": gx.__version__}
    try:
        rows = read_rows(folder)
    except BadRows as error:
        results = {**head, "success": False, "failures": [str(error)], "statistics": {}, "checks": []}
        _write(report, results)
        return results
    table = to_table(rows, {name for check in asked for name in _columns(check)})
    verifiers = table["verifier"] if "verifier" in table.columns else ()
    checks = _runnable([*default_suite(kind, set(table.columns), verifiers), *asked], table)
    outcome = _validate(port, kind, checks, table)
    entries = _entries(checks, outcome)
    failed = [entry for entry in entries if not entry["success"]]
    results = {
        **head,
        "success": not failed,
        "failures": [describe_failure(entry, table.columns) for entry in failed],
        "statistics": {
            "rows": len(table),
            "columns": len(table.columns),
            "checks": len(entries),
            "failed": len(failed),
        },
        "checks": entries,
    }
    _write(report, results)
    write_page(report, outcome, port=port, kind=kind)
    return results


def _asked(expectation: Expectation) -> GateCheck:
    """Return a recipe's expectation as a check; raise InputError if Great Expectations rejects it."""
    check_expectation(expectation)
    try:
        get_expectation_impl(expectation.type)(**expectation.kwargs)
    except (ValidationError, TypeError) as error:
        problems = " ".join(str(error).split())
        raise InputError(f"expectation {expectation.type!r}: {problems}") from error
    return GateCheck(expectation.type, dict(expectation.kwargs), origin="recipe")


def _columns(check: GateCheck) -> list[str]:
    named = [check.kwargs[key] for key in COLUMN_KEYS if isinstance(check.kwargs.get(key), str)]
    # table-wide expectations on names check the columns themselves and need none to exist
    listed = check.kwargs.get("column_list", []) if "_table_" not in check.type else []
    return [*named, *(name for name in listed if isinstance(name, str))]


def _runnable(checks: list[GateCheck], table: pd.DataFrame) -> list[GateCheck]:
    """Replace a check whose columns are missing by a check for their existence; drop duplicates.

    Without rows there are no columns, and only checks of the whole table are meaningful.
    """
    found: dict[bytes, GateCheck] = {}
    for check in checks:
        missing = [name for name in _columns(check) if name not in table.columns]
        if not len(table) and _columns(check):
            continue
        replaced = [GateCheck(EXISTS, {"column": name}, origin=f"{check.origin}: {check.type}") for name in missing]
        for item in [check] if check.type == EXISTS else replaced or [check]:
            found.setdefault(canonical_json([item.type, item.kwargs]), item)
    return list(found.values())


def _validate(port: str, kind: str, checks: list[GateCheck], table: pd.DataFrame) -> ExpectationSuiteValidationResult:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_pandas("rows").add_dataframe_asset(port)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch(batch_parameters={"dataframe": table})
    suite = gx.ExpectationSuite(
        name=kind,
        expectations=[
            {"type": check.type, "kwargs": check.kwargs, "meta": {"number": number}}
            for number, check in enumerate(checks)
        ],
    )
    return batch.validate(suite, result_format={"result_format": "SUMMARY", "partial_unexpected_count": SAMPLES})


def _entries(checks: list[GateCheck], outcome: ExpectationSuiteValidationResult) -> list[dict[str, Any]]:
    """Return one plain record per check, in suite order, without identifiers, times and traces."""
    by_number = {item.expectation_config.meta["number"]: item.to_json_dict() for item in outcome.results}
    return [_entry(check, by_number[number]) for number, check in enumerate(checks)]


def _entry(check: GateCheck, found: dict[str, Any]) -> dict[str, Any]:
    origin, _, needed_by = check.origin.partition(": ")
    result = found["result"]
    kept = {name: result[name] for name in ("element_count", "unexpected_count", "observed_value") if name in result}
    if "unexpected_count" in result:
        kept["samples"] = result.get("partial_unexpected_list", [])
        kept["rows"] = result.get("partial_unexpected_index_list") or []
    return {
        "type": check.type,
        "kwargs": check.kwargs,
        "origin": origin,
        "needed_by": needed_by or None,
        "success": bool(found["success"]),
        "result": _plain(kept),
        "error": _error(found["exception_info"]),
    }


def _error(info: dict[str, Any]) -> str | None:
    """Return the error message of an expectation that crashed; `info` is nested by metric, or flat."""
    records = [info] if "raised_exception" in info else list(info.values())
    messages = sorted({str(item["exception_message"]) for item in records if item.get("raised_exception")})
    return "; ".join(messages) or None


def _plain(value: Any) -> Any:
    """Return a value that has one JSON encoding: NaN and infinities as text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _write(report: Path, results: dict[str, Any]) -> None:
    (report / RESULTS).write_bytes(canonical_json(results) + b"\n")
