"""A reproduction as a table for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.cli.output import effect_text, print_table, seconds_text

if TYPE_CHECKING:
    from components.runtime.store import Store

DIRECTIONS = {"not_lower": "not lower", "not_higher": "not higher"}


def print_reproduction(found: dict[str, Any]) -> None:
    """Print a reproduction for people: every arm's mean, the effects with their intervals, the verdicts."""
    print(f"{found['slug']}: {found['claim']}")
    seeds = ", ".join(map(str, found["seeds"]))
    print(f"seeds {seeds} | run {found['run_id']} | {seconds_text(found['run_seconds'])}\n")
    arms = list(found["seconds"]["arms"])
    rows = [_claim_row(part, entry, arms) for part, entry in found["claims"].items()]
    for group in ("preconditions", "active"):
        rows += [_condition_row(name, entry, arms) for name, entry in found[group].items()]
    for name, entry in found["secondary"].items():
        rows.append([name, *_means(entry, arms), _effect(entry), "-", "-"])
    shown = {**found["also"], **({"budget": found["budget"]} if found["budget"] else {})}
    rows += [[name, *_means(entry, arms), "-", "-", "-"] for name, entry in shown.items()]
    times = [seconds_text(found["seconds"]["arms"][arm]) for arm in arms]
    rows.append(["time of a seed", *times, "-", "-", "-"])
    print_table(["quantity", *arms, "effect", "claim", "found"], rows)
    print()
    if found["invalid"]:
        print(f"invalid: {found['invalid']}")
    for part, verdict in found["verdicts"].items():
        more = (found["claims"][part]["decision"] or {}).get("more_seeds")
        advice = f"; about {more} seeds would do, were the effect as seen" if verdict == "undecided" and more else ""
        print(f"{part}: {verdict}{advice}")


def print_summary(records: Sequence[dict[str, Any]], failed: Sequence[str], store: Store, seconds: float) -> None:
    """Print the verdicts of many methods, and the work behind them, each stage once; `seconds` this command took."""
    from pipelines.methods.work import work_behind

    parts = ("mechanism", "outcome")
    rows = [
        [record["slug"], *(record["verdicts"].get(part, "-") for part in parts), str(len(record["seeds"]))]
        for record in records
    ]
    print()
    print_table(["method", *parts, "seeds"], [*rows, *([slug, "not judged", "-", "-"] for slug in failed)])
    found = Counter(verdict for record in records for verdict in record["verdicts"].values())
    told = ", ".join(f"{count} {verdict}" for verdict, count in found.most_common())
    work = work_behind(store, [record["run_id"] for record in records])
    print(f"\n{len(records)} methods judged, {len(failed)} not; {found.total()} claims: {told or 'none'}")
    print(
        f"behind them are {len(work)} stages, {seconds_text(sum(work.values()))} of CPU time, whichever command ran "
        f"them; this one took {seconds_text(seconds)}"
    )


def _claim_row(part: str, entry: dict[str, Any], arms: Sequence[str]) -> list[str]:
    decision = entry["decision"]
    if decision is None:
        effect, verdict = _effect(entry), "to be looked at"
    else:
        effect = f"{effect_text(decision['interval'])} ({decision['confidence']:.1%}, {decision['look']} seeds)"
        verdict = decision["verdict"]
    return [f"{part}: {entry['name']}", *_means(entry, arms), effect, claim_text(entry), verdict]


def _condition_row(name: str, entry: dict[str, Any], arms: Sequence[str]) -> list[str]:
    bounds = [f"at {end} {entry[f'at_{end}']:g}" for end in ("least", "most") if f"at_{end}" in entry]
    claim = f"{entry['effect']} {', '.join(bounds)}"
    return [name, *_means(entry, arms), f"{entry['mean']:+.4g}", claim, "holds" if entry["holds"] else "does not hold"]


def _effect(entry: dict[str, Any]) -> str:
    return f"{effect_text(entry['interval'])} (95%)"


def _means(entry: dict[str, Any], arms: Sequence[str]) -> list[str]:
    measured = (entry["arms"].get(arm) for arm in arms)  # a condition only of the arms that its effect names
    return [f"{sum(values) / len(values):.4g}" if values else "-" for values in measured]


def claim_text(entry: dict[str, Any]) -> str:
    """Return the claim about an effect: "higher by 0.02", "method / baseline - 1 lower by 0.1"."""
    effect = "" if entry["effect"] == "method - baseline" else f"{entry['effect']} "
    return f"{effect}{DIRECTIONS.get(entry['direction'], entry['direction'])} by {entry['floor']:g}"
