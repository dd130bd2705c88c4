"""Rows of the page: every method with a record, its claims as texts and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from components.contract.errors import InputError
from pipelines.methods.families import family_of
from pipelines.methods.methods import Method
from pipelines.methods.multiplicity import Together
from pipelines.methods.page.details import Grid, command, figure, grids, provenance
from pipelines.methods.page.forest import forest
from pipelines.methods.recorded import Record, RecordedClaim, effect_text, read_record
from pipelines.methods.records import FORMAT


@dataclass(frozen=True)
class ClaimCell:
    """One primary measure of a row."""

    part: str
    name: str
    claimed: str
    effect: str
    basis: str
    """What the interval is of: confidence and seeds."""
    floor: str
    verdict: str
    holds: bool
    """Whether it holds by Holm over the table."""
    advice: str
    plot: Markup


@dataclass(frozen=True)
class Row:
    """A method with a record of the protocol."""

    slug: str
    family: str
    facts: str
    claim: str
    cells: Sequence[ClaimCell]
    spent: str
    grids: Sequence[Grid]
    command: str
    provenance: str
    remarks: Sequence[str]
    runs: Sequence[str]

    @property
    def verdicts(self) -> str:
        """Return the verdicts of its claims, divided by bars."""
        return "|".join(dict.fromkeys(cell.verdict for cell in self.cells))


@dataclass(frozen=True)
class Earlier:
    """A record of the earlier protocol."""

    slug: str
    family: str
    claim: str
    verdict: str
    seeds: str
    date: str


def sort_records(methods: Sequence[Method]) -> tuple[list[tuple[Method, Record]], list[Earlier], list[tuple[str, str]]]:
    """Return the methods with a record of today's protocol, those with an earlier one, and (slug, why) of the rest."""
    current, earlier, rest = [], [], []
    for method in methods:
        if method.result is None:
            if method.recipe is not None:
                rest.append((method.slug, "no record yet"))
        elif method.result.get("format") == FORMAT:
            try:
                current.append((method, read_record(method.result)))
            except InputError as error:
                rest.append((method.slug, str(error)))
        else:
            earlier.append(_earlier(method, method.result))
    return current, earlier, rest


def row_of(method: Method, record: Record, table: Together, remarks: Sequence[str], runs: Sequence[str]) -> Row:
    """Return the row of a method; `remarks` say why its record no longer speaks of its recipe."""
    facts = method.facts
    return Row(
        slug=method.slug,
        family=family_of(facts.catalogue),
        facts=facts.paper or "",
        claim=record.claim,
        cells=[
            _cell(record, part, claim, (record.slug, part) in table.holding) for part, claim in record.claims.items()
        ],
        spent=_spent(record),
        grids=list(grids(record)),
        command=command(record),
        provenance=provenance(record),
        remarks=[*([f"invalid: {record.invalid}"] if record.invalid else []), *remarks],
        runs=runs,
    )


def _cell(record: Record, part: str, claim: RecordedClaim, holds: bool) -> ClaimCell:
    decision = claim.decision
    shown = decision.interval if decision else claim.interval
    basis = f"{decision.confidence:.1%} at {decision.look} seeds" if decision else "95 %, no look yet"
    verdict = str(record.verdicts[part])
    more = decision.more_seeds if decision and verdict == "undecided" else None
    return ClaimCell(
        part=part,
        name=claim.name,
        claimed=claim.direction.replace("_", " "),
        effect=effect_text(shown),
        basis=basis,
        floor=f"{claim.floor:g}",
        verdict=verdict,
        holds=holds,
        advice=f"about {more} seeds would do" if more else "",
        plot=forest(claim),
    )


def _spent(record: Record) -> str:
    """Return the seeds, and what each arm spent for one, on average."""
    seeds = f"{len(record.seeds)} seeds"
    if record.budget is None:
        return seeds
    means = [record.budget.mean_of(arm) for arm in record.arms]
    low, high = figure(min(means)), figure(max(means))
    return f"{seeds}; {low if low == high else f'{low} to {high}'} of {record.budget.value} an arm and seed"


def _earlier(method: Method, result: Mapping[str, Any]) -> Earlier:
    seeds = result.get("seeds")
    return Earlier(
        slug=method.slug,
        family=family_of(method.facts.catalogue),
        claim=str(result.get("claim", "-")),
        verdict=str(result.get("verdict", "-")),
        seeds=str(len(seeds)) if isinstance(seeds, list) else "-",
        date=str(result.get("date", "-")),
    )
