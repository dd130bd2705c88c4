"""posttrain gc, pin, unpin and verify: what a store keeps, and whether it is intact."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from components.contract.errors import InputError, PosttrainError
from pipelines.cli.output import print_json, print_table, print_text
from pipelines.cli.stores import store_of
from pipelines.runs.find import find_run

if TYPE_CHECKING:
    from components.runtime.store import Store
    from components.runtime.upkeep.collect import Collection
    from components.runtime.upkeep.selection import Rules
    from components.runtime.upkeep.verify import Verified

SHOWN_RUNS = 10
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def gc(arguments: argparse.Namespace) -> int:
    """Show data that no run, registered model, pin or running job reaches; delete it with --delete."""
    from components.runtime.lineage.delivery.target import tracking_uri
    from components.runtime.upkeep.collect import delete_garbage, find_garbage, only_collector
    from components.runtime.upkeep.registered import registered_digests
    from components.runtime.upkeep.selection import Rules

    store = store_of(arguments)
    rules = Rules(arguments.older_than, arguments.keep_last, arguments.undelivered, arguments.grace)
    registered = set() if arguments.without_mlflow else registered_digests(tracking_uri(store))
    if not arguments.delete:
        _show_garbage(find_garbage(store, rules, registered), rules, arguments)
        return 0
    with only_collector(store):
        found = find_garbage(store, rules, registered)
        delete_garbage(store, found, rules)
    _show_garbage(found, rules, arguments)
    return 0


def _show_garbage(found: Collection, rules: Rules, arguments: argparse.Namespace) -> None:
    rows = [(kind, len(heap.units), found.freed.get(kind, heap.size)) for kind, heap in found.heaps.items()]
    chosen = found.selection
    if arguments.json:
        kinds = {kind: {"count": count, "bytes": size} for kind, count, size in rows}
        kept = {"undelivered": chosen.undelivered, "working": chosen.working}
        spared = {"spared": found.spared, "set_aside_bytes": found.set_aside}
        print_json({"deleted": arguments.delete, "kinds": kinds, "runs": chosen.gone, "kept": kept, **spared})
        return
    total = ("in all", sum(count for _, count, _ in rows), sum(size for *_, size in rows))
    print_table(
        ["kind", "count", "size"], [[kind, f"{count:,}", size_text(size)] for kind, count, size in [*rows, total]]
    )
    if chosen.gone:
        more = len(chosen.gone) - SHOWN_RUNS
        named = ", ".join(chosen.gone[:SHOWN_RUNS]) + (f" and {more} more" if more > 0 else "")
        print(f"\nruns {'deleted' if arguments.delete else 'to delete'}: {named}")
    if chosen.undelivered:
        print(f"{len(chosen.undelivered)} runs are kept until their lineage is in MLflow: posttrain lineage sync")
    if chosen.working:
        print(f"{len(chosen.working)} runs are kept: they are in use, or were within the grace period")
    if found.spared:
        print(f"{found.spared} came into use meanwhile and are kept")
    if found.set_aside:
        print(f"quarantine/ holds {size_text(found.set_aside)} of damaged files, which gc leaves to people")
    if not arguments.delete:
        print("\nnothing was deleted; add --delete to delete it")
    if not rules.select_runs:
        print("runs themselves are deleted only with --older-than or --keep-last")


def pin(arguments: argparse.Namespace) -> int:
    """Pin a run or an artifact, or list the pins."""
    from components.runtime.upkeep.pins import pin as keep
    from components.runtime.upkeep.pins import pins

    store = store_of(arguments)
    if arguments.what is None:
        found = pins(store)
        if arguments.json:
            print_json({"pins": found})
        elif found:
            rows = [[item["kind"].removesuffix("s"), item["name"], item["by"], item["note"]] for item in found]
            print_table(["kind", "pinned", "by", "note"], rows)
        else:
            print("nothing is pinned: posttrain pin RUN, or posttrain pin MODEL")
        return 0
    kind, name = _meant(store, arguments.what)
    fresh = keep(store, kind, name, note=arguments.note)
    _tell_pin(arguments, kind, name, "pinned" if fresh else "was pinned already")
    return 0


def unpin(arguments: argparse.Namespace) -> int:
    """Remove a pin; the exit code is 1 if there was none."""
    from components.runtime.upkeep.pins import ARTIFACTS, RUNS, pinned
    from components.runtime.upkeep.pins import unpin as release

    store = store_of(arguments)
    exact = [kind for kind in (RUNS, ARTIFACTS) if arguments.what in pinned(store, kind)]  # deleted ones, too
    kind, name = (exact[0], arguments.what) if exact else _meant(store, arguments.what)
    there = release(store, kind, name)
    _tell_pin(arguments, kind, name, "no longer pinned" if there else "was not pinned")
    return 0 if there else 1


def _tell_pin(arguments: argparse.Namespace, kind: str, name: str, what: str) -> None:
    if arguments.json:
        print_json({"kind": kind, "name": name, "result": what})
    else:
        print_text(f"{kind.removesuffix('s')} {name}: {what}")


def _meant(store: Store, text: str) -> tuple[str, str]:
    """Return kind and name of a run or artifact reference; raise InputError with the near misses of both."""
    from components.runtime.ledger.ledger import Ledger
    from components.runtime.lineage.graph.references import resolve_reference, without_scheme
    from components.runtime.upkeep.pins import ARTIFACTS, RUNS

    reference = without_scheme(text)
    run, mark, output = reference.partition(":")
    if mark:
        reference = f"{find_run(store, run)}:{output}"
    try:
        if not mark:
            return RUNS, find_run(store, text)
    except InputError as error:
        missing = error
        try:
            return ARTIFACTS, resolve_reference(Ledger(store), reference).digest
        except InputError:
            raise missing from None
    return ARTIFACTS, resolve_reference(Ledger(store), reference).digest


def verify(arguments: argparse.Namespace) -> int:
    """Read every byte of a run or of the store; the exit code is 1 if something is damaged or missing."""
    from components.runtime.upkeep.verify import verify as read_all

    store = store_of(arguments)
    run_id = _run_to_verify(store, arguments.run) if arguments.run else None
    told = _progress if sys.stderr.isatty() else lambda done, total: None
    found = read_all(store, run_id, repair=arguments.repair, progress=told)
    if arguments.json:
        damage = [vars(item) for item in found.damage]
        print_json({"run_id": run_id, "bytes": found.size, "damage": damage, "missing": found.missing})
    else:
        _print_verified(found, arguments.repair)
    return int(bool(found.damage or found.missing))


def _run_to_verify(store: Store, text: str) -> str:
    """Return the referenced run, even if damage keeps runs from being listed."""
    try:
        return find_run(store, text)
    except InputError:
        raise
    except PosttrainError:
        return text


def _print_verified(found: Verified, repaired: bool) -> None:
    if found.damage:
        headers = ["kind", "key", "what is wrong", *(["repair"] if repaired else [])]
        rows = [[item.kind, item.key, item.reason, *([item.outcome] if repaired else [])] for item in found.damage]
        print_table(headers, rows)
        print()
    for digest in found.missing:
        print_text(
            f"artifact {digest} is not there: collected, or set aside earlier; run its recipe again to rebuild it"
        )
    counts = f"{found.artifacts:,} artifacts, {found.partials:,} partial checkpoints, {found.records:,} records"
    print(f"read {counts}, {size_text(found.size)}: {len(found.damage) or 'nothing'} damaged")
    if found.damage and not repaired:
        print("posttrain verify --repair moves damaged data aside; the next run rebuilds it")


def _progress(done: int, total: int) -> None:
    print(f"\r{done:,}/{total:,}", end="" if done < total else "\n", file=sys.stderr, flush=True)


def size_text(size: float) -> str:
    """Return a readable size: 512 B, 1.5 MiB."""
    unit = 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} B" if unit == 0 else f"{size:.1f} {UNITS[unit]}"
