"""Programming tasks of another source with few of their tests, chosen at random or by known mistakes (SAGA)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.operators import Bound, OperatorSpec
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.nested import check_endless
from components.tasks.seeds import derive_rng
from components.tasks.slots import DEMONSTRATOR, SOURCE, VERIFIER
from components.tasks.source import BadRow, SourceConfig, SourceRequest, SourceRow, SourceRows
from components.tasks.verify import Outcome, verify_all

TESTS, TRUTH, WRONG = "tests", "truth", "wrong"
TRIES = 8
"""Texts that the mistaken programmer writes for each wrong program that is wanted."""


class SuitesConfig(SourceConfig):
    """Whose tasks, who makes the mistakes, and how tests are chosen."""

    endless: ClassVar[bool] = True
    source: Annotated[OperatorSpec, SOURCE]
    """The source of the tasks, one without end; `data.tests` lists the tests of each."""
    faulty: Annotated[OperatorSpec, DEMONSTRATOR]
    """The demonstrator that writes programs, some of them wrong."""
    verifier: Annotated[OperatorSpec, VERIFIER] = OperatorSpec(name="programs")
    """The verifier of the tasks, which runs programs while rows are drawn: named here, its code counts for the rows."""
    choice: Literal["random", "differential"] = "random"
    """differential: each test is the one that fails most of the mistakes that no test before it fails."""
    size: int = Field(default=3, ge=1)
    """Tests of a suite."""
    mistakes: int = Field(default=6, ge=0)
    """Wrong programs that differential tests are chosen by."""
    pool: int = Field(default=8, ge=0)
    """Other wrong programs, kept in `data.wrong`: what diagnostic test_suite measures a suite by."""

    @model_validator(mode="after")
    def _known(self) -> SuitesConfig:
        check_endless(self.source, "suites")
        self.faulty.resolve()
        self.verifier.resolve()
        return self

    def verifiers(self) -> tuple[str, ...] | None:
        """Return those of the inner source, whose items these are."""
        inner = self.source.resolve().config
        return inner.verifiers() if isinstance(inner, SourceConfig) else None


def suites(request: SourceRequest, *, config: SuitesConfig) -> SourceRows:
    """Put the chosen tests into `data.tests` and all of them into `data.truth`; prompt and answer stay.

    A task with fewer tests, or with fewer different wrong programs than asked for, is left out. Which tests are valid
    and what they expect is the inner source's matter. Source: SAGA (arXiv:2507.06920), differential analysis.
    """
    source, faulty = config.source.resolve(), config.faulty.resolve()
    inner: SourceRows = source(request)
    origin = {
        "source": "suites",
        "faulty": config.faulty.name,
        "of": dict(inner.origin),
        "config": config.model_dump(mode="json", include={"choice", "size", "mistakes", "pool"}),
    }
    return SourceRows(_rows(inner.rows, faulty, config, request.seed), origin)


def _rows(
    rows: Iterator[SourceRow | BadRow], faulty: Bound, config: SuitesConfig, seed: int
) -> Iterator[SourceRow | BadRow]:
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        item = row.item(row.domain or "suites")
        if item.verifier != config.verifier.name:
            raise InputError(f"source suites: rows are judged by {item.verifier!r}; say `verifier: {item.verifier}`")
        tests: Any = item.data.get(TESTS)
        wrong = wrong_programs(item, faulty, config.mistakes + config.pool, derive_rng(seed, "suites", item.id))
        if not isinstance(tests, list) or len(tests) < config.size or len(wrong) < config.mistakes + config.pool:
            continue
        order = list(tests)
        derive_rng(seed, "suite", item.id).shuffle(order)
        if config.choice == "differential":
            order = differential(order, kills(item, order, wrong[: config.mistakes]))
        data = {**item.data, TESTS: order[: config.size], TRUTH: tests, WRONG: wrong[config.mistakes :]}
        yield replace(row, id=None, data=data)


def wrong_programs(item: Item, faulty: Bound, count: int, rng: random.Random) -> list[str]:
    """Return different wrong answers that the programmer writes, at most `count`; fewer after `TRIES` times as many."""
    written = dict.fromkeys(extract_answer(faulty(item, rng)) for _ in range(TRIES * count))
    verdicts = verify_all((item, text) for text in written)
    found = [text for text, verdict in zip(written, verdicts, strict=True) if verdict.outcome is Outcome.WRONG]
    return found[:count]


def kills(item: Item, tests: Sequence[Any], wrong: Sequence[str]) -> list[set[int]]:
    """Return for each test the wrong programs that it fails by itself."""
    alone = [item.model_copy(update={"data": {**item.data, TESTS: [test]}}) for test in tests]
    verdicts = iter(verify_all((one, text) for one in alone for text in wrong))
    return [{at for at in range(len(wrong)) if next(verdicts).outcome is Outcome.WRONG} for _ in tests]


def differential(tests: Sequence[Any], failed: Sequence[set[int]]) -> list[Any]:
    """Return the tests, next the one that fails most of what none before it fails; the first of equal ones.

    Once every mistake that some test fails is failed, the count begins anew.
    """
    left, order = list(range(len(tests))), []
    missing: set[int] = set()
    while left:
        if not any(missing & failed[at] for at in left):
            missing = set().union(*(failed[at] for at in left))
        best = max(left, key=lambda at: len(missing & failed[at]))
        missing -= failed[best]
        left.remove(best)
        order.append(tests[best])
    return order
