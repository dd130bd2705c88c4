"""Queries: how far their results agree with those of the reference, on every database of the item."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from components.contract.params import Params
from components.runtime.sandbox import Limits, Reply, Status
from components.tasks.answers import extract_answer
from components.tasks.domains.tiny_sql import QUERY, overlap
from components.tasks.item import Item
from components.tasks.programs.extract import extract_program
from components.tasks.programs.suite import ProgramTest, read_suite
from components.tasks.sandboxed import Request, describe
from components.tasks.scoring import query
from components.tasks.verdict import Outcome
from components.tasks.verify import BrokenItem, Verdict, wrong

MAX_CHARS = 2_000
TAGS = ("sql", "sqlite")
MAX_GRADE = 0.99
"""Highest score of a query that is wrong."""
LIMITS = Limits(seconds=2.0, memory_bytes=256 << 20, output_bytes=1 << 20)


class SqliteVerifierConfig(Params):
    """What a query that runs is worth."""

    floor: float = Field(default=0.1, ge=0, le=1)
    """Least score of a query that runs on all databases; Think2SQL's small reward."""
    dense: bool = True
    """Whether the score of a wrong query grows with the overlap of the results; if not it is 0."""


def sqlite(item: Item, response: str, *, config: SqliteVerifierConfig) -> Verdict | Request:
    """Run the query in the sandbox on the databases of `data["tests"]`, in memory and read-only.

    RIGHT if all results hold the reference's rows. Otherwise the score is the mean of `table overlap`: cell precision,
    cell recall and cardinality, at least `floor`; 0 for a query that does not run.
    Source: Think2SQL, execution reward with QATCH's measures.
    """
    suite = read_suite(item, "sql")
    if suite.kind != "query":
        raise BrokenItem("data.tests holds no queries")
    source = extract_program(response, TAGS) if "```" in response else extract_answer(response)
    if not source.strip() or len(source) > MAX_CHARS:
        return wrong(f"no query of up to {MAX_CHARS} characters", graded=0.0)
    argument = {"source": source, "setups": [test.setup for test in suite.tests]}
    shared = QUERY.fullmatch(source) is not None  # any other text may try anything, and has a run of its own
    return Request(query.select, argument, lambda reply: _conclude(reply, suite.tests, config), LIMITS, shared=shared)


def _conclude(reply: Reply, tests: list[ProgramTest], config: SqliteVerifierConfig) -> Verdict:
    if reply.status is not Status.VALUE or not isinstance(reply.value, list) or len(reply.value) != len(tests):
        return wrong(f"the query {_plain(describe(reply)) if reply.status in ENDED else 'gave nothing'}", graded=0.0)
    found: list[dict[str, Any]] = reply.value
    for result in found:
        if "value" not in result:
            return wrong(f"the query {_plain(str(result.get('raised')))}", graded=0.0)
    pairs = list(zip(tests, (result["value"] for result in found), strict=True))
    if all(test.is_met(value, 0.0) for test, value in pairs):
        return Verdict(Outcome.RIGHT, "", 1.0)
    share = sum(overlap(value, test.rows or []) for test, value in pairs) / len(pairs)
    grade = max(config.floor, min(MAX_GRADE, share)) if config.dense else 0.0
    return wrong(f"overlap {share:.2f} of the results", graded=grade)


ENDED = set(Status) - {Status.VALUE}


def _plain(text: str) -> str:
    return repr(text[:120])[1:-1]
