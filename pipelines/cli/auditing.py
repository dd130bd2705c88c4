"""posttrain audit-reward: what responses of known worth earn from a recipe's rewards, before it trains on them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from components.audit_reward.page import show
from components.audit_reward.place import AUDIT
from components.contract.errors import InputError, UnknownName
from components.contract.terminal import short_line, visible_line
from pipelines.cli.output import print_json, print_table, print_text
from pipelines.cli.stopping import terminate_like_interrupt
from pipelines.cli.stores import store_of

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.recipe.recipe import Recipe
    from pipelines.recipe.stage import Stage

AUDIT_ALL = "defaults.integrity=report"
MAX_EXAMPLE = 100


def audit_reward(arguments: argparse.Namespace) -> int:
    """Run the audits of a recipe and the stages that they need; the exit code is 1 if there are findings."""
    terminate_like_interrupt()
    from components.runtime.ledger.ledger import load_run
    from pipelines.engines.engine import RunOptions
    from pipelines.engines.registry import DEFAULT
    from pipelines.engines.start import start_run
    from pipelines.recipe.recipe import load_recipe

    recipe = load_recipe(arguments.recipe, [*arguments.overrides, AUDIT_ALL], seed=arguments.seed)
    audits = _audits(recipe, arguments.stage)
    part = replace(recipe, stages=needed(recipe.stages, {stage.name for stage in audits}))
    store = store_of(arguments)
    options = RunOptions(new=arguments.new, jobs=arguments.jobs)
    _, result = start_run(part, store, engine=DEFAULT, options=options, quiet_stdout=True)
    if result.exit_code:
        for name, error in result.failures.items():
            print_text(f"{name} failed: {error}")
        return result.exit_code
    entries = load_run(store, result.run_id).stages
    found = {stage.name: _read(store, entries[stage.name]["outputs"]["report"]["digest"]) for stage in audits}
    if arguments.json:
        print_json({"run": result.run_id, "audits": found})
    else:
        for name, audit in found.items():
            _print(name, audit)
        print_text(f"run     {result.run_id}\nreport  {result.page or 'none'}")
    return int(any(row["is_finding"] for audit in found.values() for row in audit["rows"]))


def needed(stages: Sequence[Stage], wanted: Collection[str]) -> tuple[Stage, ...]:
    """Return the wanted stages and all that must end before them, in order."""
    found = set(wanted)
    for stage in reversed(stages):
        if stage.name in found:
            found |= set(stage.after)
    return tuple(stage for stage in stages if stage.name in found)


def _audits(recipe: Recipe, only: str | None) -> list[Stage]:
    """Return the stages that audit; raise InputError if the recipe has no reward, or not the stage that is named."""
    rewarded = [stage for stage in recipe.stages if stage.component.audited_by]
    kinds = {stage.component.audited_by for stage in rewarded}
    audits = [stage for stage in recipe.stages if stage.component.name in kinds]
    if not audits:
        raise InputError(f"recipe {recipe.name!r} has no stage whose reward could be audited: none uses rl")
    if only is None:
        return audits
    waits_for = next((stage.after for stage in rewarded if stage.name == only), [only])
    chosen = [stage for stage in audits if stage.name in waits_for]
    if not chosen:
        raise UnknownName("stage with a reward", only, [stage.name for stage in rewarded])
    return chosen


def _read(store: Store, digest: str) -> dict[str, Any]:
    """Return what an audit found, from its report."""
    found: dict[str, Any] = json.loads((store.fetch(digest) / AUDIT).read_text(encoding="utf-8"))
    return found


def _print(name: str, audit: dict[str, Any]) -> None:
    print_text(f"{name}: {audit['num_prompts']} prompts")
    rows = [
        [
            row["name"],
            row["worth"],
            show(row["reward"]),
            f"{100 * row['too_much_share']:.0f}",
            f"{100 * row['right_share']:.0f}",
            "FINDING" if row["is_finding"] else "",
        ]
        for row in audit["rows"]
    ]
    print_table(["response", "is", "reward [95 %]", "too much, %", "right, %", ""], rows)
    own = audit["own"]
    print_text(f"the model's own: right ones earn {show(own['right'])}, wrong ones {show(own['wrong'])}")
    for row in audit["rows"]:
        if row["is_finding"]:
            print_text(f"{row['name']} ({visible_line(row['what'])}): {visible_line(row['why'])}")
            print_text(f"  {short_line(row['example'], MAX_EXAMPLE)}")
    if not any(row["is_finding"] for row in audit["rows"]):
        print_text("nothing found")
