"""How people name an artifact: a digest or its prefix, run:stage.port, or a registered model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from components.contract.errors import InputError, UnknownName
from components.runtime.ledger.ledger import Ledger
from components.runtime.lineage.registry import find_version, model_names

PREFIX = re.compile(r"^[0-9a-f]{4,64}$")
DIGEST_LENGTH = 64


@dataclass(frozen=True)
class Reference:
    """An artifact, and the run and stage that its name refers to, if any."""

    digest: str
    run_id: str | None = None
    stage: str | None = None
    registered: dict[str, Any] | None = None
    """The registry's record, if a registered model was named."""


def without_scheme(text: str) -> str:
    """Return recipe inputs models:/name@alias and artifact:digest without scheme, as this module expects."""
    scheme, _, rest = text.partition(":")
    is_uri = (scheme == "models" and rest.startswith("/")) or (scheme == "artifact" and PREFIX.match(rest))
    return rest.lstrip("/") if is_uri else text  # a run may also be called "models"


def resolve_reference(ledger: Ledger, text: str) -> Reference:
    """Resolve "name", "name@alias", "name/version", "run:stage.port", a digest or its prefix.

    Raises UnknownName with near misses, or InputError if it is ambiguous.
    """
    if ":" in text:
        return _by_port(ledger, text)
    record = find_version(ledger.store, text)
    if record:
        return Reference(record["digest"], record["run_id"], record["stage"], record)
    if PREFIX.match(text):
        found = _digests(ledger, text)
        if len(found) > 1:
            shown = ", ".join(digest[: len(text) + 8] for digest in found[:10])
            raise InputError(f"digest {text!r} is the beginning of several artifacts: {shown}")
        if found:
            return Reference(found[0])
    known = [*model_names(ledger.store), *(f"{run_id}:<stage>.<port>" for run_id in ledger.newest[:3])]
    raise UnknownName("artifact or registered model", text, known)


def _by_port(ledger: Ledger, text: str) -> Reference:
    run_text, _, rest = text.partition(":")
    run = ledger.run(run_text)
    stage, _, port = rest.rpartition(".")
    outputs = {
        f"{name}.{output_port}": output["digest"]
        for name, entry in run.stages.items()
        for output_port, output in entry["outputs"].items()
    }
    if f"{stage}.{port}" not in outputs:
        raise UnknownName(f"output of run {run.run_id}", rest, outputs)
    return Reference(outputs[f"{stage}.{port}"], run.run_id, stage)


def _digests(ledger: Ledger, prefix: str) -> list[str]:
    """Return the artifacts whose digest has this prefix: those that stages made, or else imported ones."""
    if len(prefix) == DIGEST_LENGTH and ledger.store.has(prefix):
        return [prefix]
    made = ledger.store.names(f"producers/{prefix}")
    return made or [digest for digest in ledger.store.names(f"objects/{prefix}") if ledger.store.has(digest)]
