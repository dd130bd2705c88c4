"""posttrain rebuild and statement: a run made again without a source, and the signed statement of what that changed."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.contract.terminal import visible_line
from pipelines.cli.output import print_json, print_table, print_text
from pipelines.cli.stores import store_of
from pipelines.runs.find import find_run

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import RunRecord
    from components.runtime.store import Store
    from pipelines.plan.forecast import StageForecast
    from pipelines.provenance.reach import Effect, Reach
    from pipelines.recipe.recipe import Recipe

SHORT = 12
MAX_LISTED = 8


def rebuild(arguments: argparse.Namespace) -> int:
    """Run a run's recipe again without sources, and write the signed statement; the exit code is the run's."""
    from components.runtime.ledger.ledger import load_run
    from pipelines.cli.stopping import terminate_like_interrupt
    from pipelines.engines.engine import RunOptions
    from pipelines.engines.start import plan_run, start_run
    from pipelines.provenance.envelope import sealed
    from pipelines.provenance.keys import private_key
    from pipelines.provenance.removal import removal_statement
    from pipelines.provenance.statements import keep_statement
    from pipelines.runs.summary import print_ending

    terminate_like_interrupt()
    key = private_key(arguments.key)  # before anything is paid for
    output = Path(arguments.output) if arguments.output else None
    if output is not None and not output.parent.is_dir():
        raise InputError(f"{output}: there is no folder {output.parent}")
    store = store_of(arguments)
    before = load_run(store, find_run(store, arguments.run))
    recipe, reach = _rebuilt_recipe(store, before, arguments)
    _, forecasts, _ = plan_run(recipe, store)
    effect = _effect(reach, forecasts, arguments)
    if arguments.plan:
        if arguments.json:
            print_json(effect.to_json())
        return 0
    options = RunOptions(new=arguments.new, jobs=arguments.jobs, containers=arguments.containers)
    _, result = start_run(recipe, store, engine=arguments.engine, options=options, quiet_stdout=arguments.json)
    if result.exit_code:
        print_ending(store, result)
        print_text("no statement yet: the same command goes on, and writes it")
        return result.exit_code
    after = load_run(store, result.run_id)
    statement = removal_statement(store, before, after, reach, arguments.without)
    envelope = sealed(statement, key)
    keep_statement(store, after.run_id, envelope)
    place = _write(output or Path(f"{after.run_id}.intoto.json"), envelope)
    if arguments.json:
        print_json({"run_id": after.run_id, "statement": str(place), "effect": effect.to_json(), **statement})
    else:
        print_ending(store, result)
        print()
        _print_statement(statement)
        print_text(f"statement {place}, signed by key {envelope['signatures'][0]['keyid'][:SHORT]}")
    return 0


def _rebuilt_recipe(store: Store, before: RunRecord, arguments: argparse.Namespace) -> tuple[Recipe, Reach]:
    """Return the recipe without the sources, and which stages that reaches; raise InputError where it cannot be."""
    from pipelines.language.problems import RecipeErrors
    from pipelines.provenance.reach import Reach, need_own_inputs, need_same_work, overrides_without
    from pipelines.recipe.recipe import load_recipe
    from pipelines.runs.recipe_of import recipe_path

    if before.status != "succeeded":
        raise InputError(f"run {before.run_id} is {before.status}; a rebuild compares with a run that succeeded")
    where = arguments.recipe or recipe_path("rebuild", before.run_id, before.entry)
    own = list(before.entry.get("overrides") or ())
    recipe = load_recipe(where, own)
    need_same_work(before, recipe)
    need_own_inputs(store, before, arguments.without)
    try:
        rebuilt = load_recipe(where, overrides_without(own, recipe.without, arguments.without))
    except RecipeErrors as errors:
        told = dict.fromkeys(problem.message.removeprefix("without: ") for problem in errors.problems)
        only = any("has no other source" in one for one in told)
        hint = "; STAGE.NAME leaves a source out of one stage alone" if only else ""
        raise InputError(f"rebuild: {'; '.join(told)}{hint}") from errors
    return rebuilt, Reach.of(recipe, rebuilt)


def _effect(reach: Reach, forecasts: Sequence[StageForecast], arguments: argparse.Namespace) -> Effect:
    """Tell what a rebuild does and costs; raise InputError if it spares nothing and that was not asked for."""
    from components.runtime.costs.words import amount_text
    from pipelines.plan.shown import cost_of
    from pipelines.provenance.reach import Effect

    effect = Effect.of(reach, forecasts)
    known = [one for one in forecasts if one.job.stage in effect.will_run and one.amount is not None]
    cost = f"about {amount_text(cost_of(known))}" if known else "a cost without a basis"
    named = " and ".join(visible_line(name) for name in arguments.without)
    if not reach.others and not (arguments.everything or arguments.plan):
        raise InputError(
            f"{named} reaches every stage: all {len(reach.depending)} would run again, for {cost}; --everything does it"
        )
    if not arguments.json:
        print_text(
            f"{named}: read by {_some(reach.reading)}; {len(reach.depending)} of {len(forecasts)} stages depend on it; "
            f"{len(effect.will_run)} run, {len(effect.cached)} are cached; {cost}"
        )
        for stage, why in effect.besides.items():
            print_text(f"{stage} does not depend on it and runs all the same: {why}")
    return effect


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more


def _write(place: Path, envelope: Mapping[str, Any]) -> Path:
    """Write the envelope, whole or not at all."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=place.parent, prefix=f".{place.name}.", delete=False) as stream:
            stream.write(json.dumps(envelope) + "\n")
        Path(stream.name).replace(place)
    except OSError as error:
        raise InputError(f"{place}: {error.strerror or error}; the statement is in the store, too") from error
    return place


def statement(arguments: argparse.Namespace) -> int:
    """Verify a statement's signature, and its subjects in the store; the exit code is 1 if one is not there."""
    from pipelines.provenance.envelope import opened
    from pipelines.provenance.keys import public_key
    from pipelines.provenance.removal import PREDICATE_TYPE

    key = public_key(arguments.key)
    try:
        text = Path(arguments.file).read_bytes()
    except OSError as error:
        raise InputError(f"{arguments.file}: {error.strerror or error}") from error
    try:
        found = opened(text, key)
        if found.get("predicateType") != PREDICATE_TYPE:
            raise InputError(f"a statement of type {str(found.get('predicateType'))[:60]!r}, not of a removal")
        missing = _missing(store_of(arguments), found)
        if arguments.json:
            print_json({"verified": True, "missing": missing, "statement": found})
            return int(bool(missing))
        print_text(f"{arguments.file}: signed by this key, and unchanged")
        _print_statement(found)
    except InputError as error:
        raise InputError(f"{arguments.file}: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:  # its signer wrote it otherwise than rebuild does
        raise InputError(f"{arguments.file}: no statement of a removal: {error}") from error
    for line in missing:
        print_text(f"not in this store: {line}")
    return int(bool(missing))


def _missing(store: Store, found: Mapping[str, Any]) -> list[str]:
    """Return the subjects that the store does not have whole under their digests."""
    subjects = [(str(one["name"]), str(one["digest"]["sha256"])) for one in found["subject"]]
    return [name for name, digest in subjects if not store.has(digest) or store.look(digest).damage]


def _print_statement(found: Mapping[str, Any]) -> None:
    about = found["predicate"]
    for one in about["removed"]:
        rows = "rows not known" if one["kept"] is None else f"{one['kept']:,} of {one['drawn']:,} rows"
        terms = f"licence {one['license'] or 'unknown'}"
        print_text(f"removed   {one['source']} from {one['stage']}: {rows}, {terms}")
    print_table(
        ["stage", "depends", "result", "output", "before", "after"],
        [
            [
                stage["name"],
                "yes" if stage["depends"] else "no",
                stage["result"],
                port,
                (output["before"] or "-")[:SHORT],
                (output["after"] or "-")[:SHORT],
            ]
            for stage in about["stages"]
            for port, output in stage["outputs"].items()
        ],
    )
    rows = about["rows"]
    left = ", ".join(f"{count} in {place}" for place, count in rows["remaining"].items())
    print_text(f"of {rows['removed']} removed rows, texts still there from other sources: {left or 'none'}")
    for line in rows["unread"]:
        print_text(f"not looked at: {line}")
