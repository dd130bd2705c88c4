"""Model registry of the store: names, versions and aliases, mirrored to MLflow through the spool.

models/<name>/<version>.json            written once
models/<name>/aliases/<alias>.json      points to a version
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError, UnknownName
from components.runtime.ledger.records import run_key
from components.runtime.lineage.heal import read_or_copy, read_or_heal
from components.runtime.lineage.spool import Spool

if TYPE_CHECKING:
    from components.runtime.store import Store

ROOT = "models"
NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
ALIAS = re.compile(r"^[A-Za-z][A-Za-z0-9._-]{0,63}$")
"""An alias begins with a letter, so that it is never mistaken for a version."""
VERSION = re.compile(r"(\d+)\.json")
LOCK_WAIT_SECONDS = 60.0
Read = Callable[["Store", str], dict[str, Any] | None]


def register_model(
    store: Store,
    name: str,
    digest: str,
    *,
    run_id: str,
    stage: str,
    metrics: Mapping[str, float],
    aliases: Iterable[str] = (),
    reused: bool = False,
) -> int:
    """Give a model the next version under `name`, point `aliases` to it, and return the version.

    A run registers a model under a name once: another call returns the same version and adds missing aliases. So does
    a rerun whose stage was `reused` from the cache: it keeps the version of the recipe's earlier run. An alias only
    moves forward, to the newest version that requested it. Raises InputError for an invalid name or alias.
    """
    aliases = list(aliases)
    _check(name, aliases)
    with store.lock(f"models-{name}", wait_seconds=LOCK_WAIT_SECONDS):
        known = list(versions(store, name, read_or_heal))
        record = next((found for found in known if _is(found, digest, run_id)), None)
        if record is None and reused:
            record = next((found for found in reversed(known) if _repeats(store, found, digest, run_id, stage)), None)
        if record is None:
            record = {
                "name": name,
                "version": max((found["version"] for found in known), default=0) + 1,
                "digest": digest,
                "run_id": run_id,
                "stage": stage,
                "metrics": dict(metrics),
                "aliases": aliases,
                "registered": time.time(),
            }
            store.put(_version_key(name, record["version"]), record)
        for alias in aliases:
            held = read_or_heal(store, _alias_key(name, alias))
            if held is None or held["version"] < record["version"]:
                store.put(_alias_key(name, alias), {"version": record["version"]}, overwrite=True)
    Spool(store, run_id).model_registered(
        name,
        record["version"],
        digest,
        stage=stage,
        aliases=aliases,
        metrics=record["metrics"],
        registered=record["registered"],
    )
    return record["version"]


def versions(store: Store, name: str, read: Read = read_or_copy) -> Iterator[dict[str, Any]]:
    """Yield the versions of a registered model, oldest first; `read` decides how a damaged one is handled."""
    for key in _version_keys(store, name).values():
        if record := read(store, key):
            yield record


def _version_keys(store: Store, name: str) -> dict[int, str]:
    """Return version -> the key of its record, oldest first."""
    folder = f"{ROOT}/{name}/"
    found = (VERSION.fullmatch(entry) for entry in store.names(folder))
    return {int(match[1]): f"{folder}{match[0]}" for match in found if match}


def model_names(store: Store) -> list[str]:
    """Return all registered names, sorted."""
    return store.names(f"{ROOT}/")


def aliases_of(store: Store, name: str) -> dict[str, int]:
    """Return alias -> version of a registered model."""
    found = {}
    for key in store.keys(f"{ROOT}/{name}/aliases/"):
        record = read_or_copy(store, key)
        if record:
            found[key.rpartition("/")[2].removesuffix(".json")] = record["version"]
    return found


def find_version(store: Store, reference: str) -> dict[str, Any] | None:
    """Return the version of "name" (the newest), "name@alias" or "name/version"; None for an unknown name.

    Raises UnknownName if the name is registered without that version or alias.
    """
    name = re.split(r"[@/]", reference, maxsplit=1)[0]
    selector = reference[len(name) :]
    if not NAME.match(name):
        return None
    known = _version_keys(store, name)
    if not known:
        return None
    if not selector:
        chosen: int | None = max(known)
    elif selector[0] == "@":
        chosen = aliases_of(store, name).get(selector[1:])
    else:
        chosen = _number(selector[1:])
    record = read_or_copy(store, known[chosen]) if chosen in known else None
    if record is None:
        raise UnknownName(f"version of model {name!r}", selector[1:], [*map(str, known), *aliases_of(store, name)])
    return record


def _check(name: str, aliases: Iterable[str]) -> None:
    if not NAME.match(name):
        raise InputError(f"model name {name!r}: takes letters, digits, '.', '_' and '-', 128 at most")
    for alias in aliases:
        if not ALIAS.match(alias):
            raise InputError(
                f"alias {alias!r} of model {name!r}: takes letters, digits, '.', '_' and '-' after a letter"
            )


def _is(record: Mapping[str, Any], digest: str, run_id: str) -> bool:
    return record["digest"] == digest and record["run_id"] == run_id


def _repeats(store: Store, record: Mapping[str, Any], digest: str, run_id: str, stage: str) -> bool:
    """Return whether a version is the same model from the same stage of another run of the same recipe."""
    if record["digest"] != digest or record["stage"] != stage:
        return False
    recipes = [(read_or_copy(store, run_key(run)) or {}).get("recipe") for run in (record["run_id"], run_id)]
    return recipes[0] == recipes[1]


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _version_key(name: str, version: int) -> str:
    return f"{ROOT}/{name}/{version:06d}.json"


def _alias_key(name: str, alias: str) -> str:
    return f"{ROOT}/{name}/aliases/{alias}.json"
