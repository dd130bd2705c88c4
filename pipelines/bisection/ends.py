"""The two ends of a bisection: a recipe by name or file, or a recorded run with the data that it used."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError, did_you_mean
from components.contract.job import UriRef
from components.contract.terminal import visible_line
from components.runtime.inputs.inputs import uri_digest
from pipelines.bisection.trees import Tree, put, tree_of, value_at
from pipelines.bisection.versions import resolve_commit
from pipelines.engines.start import plan_run
from pipelines.language.document import Document, parse
from pipelines.language.find import SUFFIXES, find_parent, find_recipe, recipe_files
from pipelines.recipe.layers import read_layers
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from components.runtime.ledger.ledger import RunRecord
    from components.runtime.store import Store

    Load = Callable[[Tree], Recipe]


AUDIT = "-integrity"
"""End of the name of a stage that audits the rewards of another; audits are no part of a bisection."""


@dataclass(frozen=True)
class End:
    """One end of a bisection."""

    title: str
    tree: Tree
    seed: int
    run: RunRecord | None = None
    """The recorded run, if it is one."""
    commit: str | None = None
    """The commit of posttrain that runs it; None for today's code."""
    lost: str = ""
    """What of a recorded run's code cannot be had again."""


def read_end(store: Store, text: str, load: Load) -> End:
    """Return the end that a text means: the name or file of a recipe, else a run's id, its beginning, or latest.

    With @COMMIT behind it that commit of posttrain runs it, else today's code.
    `load` checks a tree as a recipe. Raises InputError for what is neither, and for a run whose recipe has changed.
    """
    named, mark, commit = text.rpartition("@")
    if mark and not text.endswith(SUFFIXES):  # which is a path, whatever is in it
        return replace(read_end(store, named, load), title=text, commit=resolve_commit(commit))
    if text in recipe_files() or text.endswith(SUFFIXES):
        documents = read_layers(find_recipe(text))
        return _end(text, tree_of(documents, ()))
    from components.runtime.ledger.ledger import load_run

    return _recorded(store, load_run(store, _run_id(store, text)), load)


def _run_id(store: Store, text: str) -> str:
    from components.runtime.ledger.ledger import Ledger
    from pipelines.runs.find import find_run

    ids = Ledger(store).newest
    if not ids or not (text == "latest" or any(run_id.startswith(text) for run_id in ids)):
        known = did_you_mean(text, [*recipe_files(), *ids[:20]])
        raise InputError(f"{visible_line(text)[:80]!r} is neither a recipe nor a run of {store.uri}{known}")
    return find_run(store, text)


def _end(title: str, tree: Tree, run: RunRecord | None = None) -> End:
    seed = tree.get("seed", 0)
    axis = value_at(tree, ("matrix", "seed"))
    first = axis[0] if isinstance(axis, list) and axis else seed
    return End(title, tree, first if isinstance(first, int) else 0, run)


def _recorded(store: Store, run: RunRecord, load: Load) -> End:
    """Return a recorded run as an end: the recipe that it ran, with the data that it read."""
    entry = run.entry
    overrides = entry.get("overrides") or ()
    tree = tree_of(_documents(run), overrides)
    recipe = load(tree)
    problem = _changed(run, recipe)
    if not problem:
        return _with_data(store, _end(run.run_id, tree, run), recipe)
    raise InputError(
        f"run {run.run_id}: {problem}: its recipe, a parent of it or an operator's file has changed since; "
        f"name a recipe file as it was (its code: {(entry.get('code') or {}).get('version')})"
    )


def _documents(run: RunRecord) -> list[Document]:
    """Return the recipe of a run as it was, with its parents as they are today: the record has only its own text."""
    try:
        now = read_layers(find_recipe(str(run.entry.get("recipe_path") or "")))
    except InputError as error:
        raise InputError(f"run {run.run_id}: its recipe is not where it was: {error}") from None
    text = str(run.entry.get("recipe_text") or now[0].text)
    if text == now[0].text:
        return now
    then = replace(now[0], text=text, root=parse(text, now[0].label))
    return [then, *_parents(then, now)]


def _parents(then: Document, now: list[Document]) -> list[Document]:
    parent, today = then.root.child("extends"), now[0].root.child("extends")
    if parent is None:
        return []
    if today is None or parent.plain() != today.plain():
        return read_layers(find_parent(str(parent.plain()), then.path))
    return now[1:]


def _changed(run: RunRecord, recipe: Recipe) -> str:
    """Return what a run did that a recipe no longer says; empty if it says all."""
    own = {stage.name: stage for stage in recipe.stages}
    for recorded in run.entry.get("stages") or ():
        stage = own.get(recorded["name"])
        if recorded.get("shard_of") or (stage is None and str(recorded["name"]).endswith(AUDIT)):
            continue
        if stage is None:
            return f"it had a stage {recorded['name']}"
        for what, then, now in _facts(recorded, stage):
            if then != now:
                return f"stage {stage.name} ran with {what} {then}, and it is {now} now"
    return ""


def _facts(recorded: Mapping[str, Any], stage: Stage) -> list[tuple[str, Any, Any]]:
    params = recorded.get("params") or {}
    names = dict.fromkeys([*params, *stage.params])
    return [
        ("component", recorded["component"], stage.component.name),
        ("seed", recorded.get("seed", stage.seed), stage.seed),
        *((name, params.get(name), stage.params.get(name)) for name in names),
    ]


def _with_data(store: Store, end: End, recipe: Recipe) -> End:
    """Return an end whose inputs from outside are those that its run read, where they have changed since."""
    assert end.run is not None
    for stage in recipe.stages:
        entry = end.run.stages.get(stage.name)
        for port, references in stage.inputs.items():
            read = ((entry or {}).get("inputs") or {}).get(port) or ()
            for place, reference in enumerate(references):
                if isinstance(reference, UriRef) and place < len(read):
                    _pin(store, end, stage, port, place, reference.uri, read[place]["digest"])
    return end


def _pin(store: Store, end: End, stage: Stage, port: str, place: int, uri: str, digest: str) -> None:
    """Give the tree the artifact that a run made of an input, unless the input is still the same."""
    if _digest(store, uri, stage, port) == digest:
        return
    if not store.has(digest):
        raise InputError(f"run {end.title}: {uri} of stage {stage.name} has changed, and the store no longer has it")
    path: tuple[str | int, ...] = ("stages", *(stage.group or stage.name).split("."), "in", port)
    written = value_at(end.tree, path)
    if isinstance(written, list) and place < len(written) and isinstance(written[place], str):
        path = (*path, place)
    elif not isinstance(written, str):
        raise InputError(f"run {end.title}: {uri} of stage {stage.name} has changed, in a place that cannot be set")
    put(end.tree, path, f"artifact:{digest}")


def _digest(store: Store, uri: str, stage: Stage, port: str) -> str | None:
    try:
        return uri_digest(store, uri, stage.component.inputs[port].type)
    except InputError:  # it is gone, or no longer what it was
        return None


def with_code(store: Store, end: End, recipe: Recipe, stages: Collection[str]) -> End:
    """Return a recorded run with the commit that it ran, unless today's code does the same work in these stages."""
    if end.run is None or end.commit is not None or _is_same_work(store, end.run, recipe, stages):
        return end
    code = end.run.entry.get("code") or {}
    version = str(code.get("version") or "")
    try:
        commit = resolve_commit(version)
    except InputError:
        lost = f"ran code {version[:12] or 'of no version'}, which is not in posttrain's repository; today's is taken"
        return replace(end, lost=lost)
    lost = f"ran changes to {commit[:12]} that were not committed, and are not known" if code.get("dirty") else ""
    return replace(end, commit=commit, lost=lost)


def _is_same_work(store: Store, run: RunRecord, recipe: Recipe, stages: Collection[str]) -> bool:
    """Return whether today's code would have the results of a run in the cache: the fingerprint has the code."""
    try:
        planned = {stage.job.stage: stage.fingerprint for stage in plan_run(recipe, store)[1]}
    except InputError:
        return False
    recorded = {name: entry["fingerprint"] for name, entry in run.stages.items() if entry.get("fingerprint")}
    return all(planned.get(name) == recorded[name] for name in stages if name in recorded)
