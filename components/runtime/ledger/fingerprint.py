"""Fingerprint of a job: what must be equal for an earlier result to be this job's result.

It covers the component's name, its resolved parameters, the chosen operators with their configs, the digests of its
inputs, the seed, backends other than the defaults, and the code that does the work:

- the modules of `run` and of the parameters class, with everything they import, at any depth;
- those of the chosen operators and of the operators that these use, a user's file by the digest in its name; those of
  the verifiers that the rows of the inputs name (of all verifiers, if the rows are not known);
- the versions of installed packages that any of these modules lists in VERSIONED_PACKAGES;
- files that operators read, by content, and objects of a bucket, by a listing with their ETags.

Comments, docstrings and layout do not count, nor do the fields of the parameters class, whose values are covered
themselves, nor the declaration: ports, advice, memory, headlines. The contract and the runtime are left out: they do
not compute results, and EPOCH is raised by hand for the rare change to them that alters what stages write.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.artifacts import canonical_json
from components.contract.component import Component
from components.contract.job import Resources
from components.contract.operators import Bound, operators_of, with_used
from components.contract.params import Params
from components.contract.registry import operators
from components.runtime.closure.source import file_digest
from components.runtime.closure.walk import NOT_INSTALLED, Closures, Code
from components.runtime.store.s3_objects import objects_digest

EPOCH = 2
"""2: code is hashed by its syntax, operators by their configs, verifiers by what rows name."""
ALL_VERIFIERS = None
"""All verifiers, for when no rows name them."""


@dataclass(frozen=True)
class Fingerprint:
    """A digest and the parts that went into it, kept so that a cache miss can be explained."""

    digest: str
    parts: dict[str, Any]

    @classmethod
    def of(cls, parts: dict[str, Any]) -> Fingerprint:
        """Return the fingerprint with these parts."""
        return cls(hashlib.sha256(canonical_json(parts)).hexdigest(), parts)

    @property
    def incomplete(self) -> bool:
        """Whether a package that counts is not installed here, so that the fingerprint may differ elsewhere."""
        return NOT_INSTALLED in self.parts.get("packages", {}).values()


def fingerprint(
    component: Component,
    params: Params,
    inputs: Mapping[str, Iterable[str]],
    seed: int,
    resources: Resources | None = None,
    *,
    verifiers: Iterable[str] | None = ALL_VERIFIERS,
    closures: Closures | None = None,
    objects: Callable[[str], str] = objects_digest,
) -> Fingerprint:
    """Return the fingerprint of a component run on input digests per port; digests keep their order within a port.

    Of `resources`, only the backends that the component uses count. `verifiers` are those that the rows of the inputs
    name; they count if the component verifies. `objects` gives the digest of what an s3:// address refers to; the
    default raises StoreUnavailable where that cannot be listed. Raises a one-line InputError with what to do if the
    source of code that counts cannot be read: a change to it would go unnoticed.
    """
    chosen = resources.backend_parts(component.backends) if resources else {}
    called = component.verifies is not None and any(port in inputs for port in component.verifies(params))
    named = None if verifiers is ALL_VERIFIERS else sorted(set(verifiers))
    work = _Work(closures or Closures(), component, params, objects)
    if called:
        work.add_verifiers(named)
    parts = {
        "epoch": EPOCH,
        "component": component.name,
        "params": params.model_dump(mode="json"),
        "operators": work.operators,
        "inputs": {port: list(digests) for port, digests in sorted(inputs.items())},
        "seed": seed,
        "code": dict(sorted(work.code.files.items())),
        **({"packages": dict(sorted(work.code.packages.items()))} if work.code.packages else {}),
        **({"verifiers": named} if called else {}),
        **({"backends": chosen} if chosen else {}),
    }
    return Fingerprint.of(parts)


class _Work:
    """Collects the code and operators that a component runs with its parameters."""

    def __init__(self, closures: Closures, component: Component, params: Params, objects: Callable[[str], str]) -> None:
        self._closures, self._objects = closures, objects
        self.code = Code()
        self.operators: list[dict[str, Any]] = []
        owner = f"component {component.name!r}"
        self._add_module(component.run.partition(":")[0], owner)
        self.code.add(closures.of(component.params.__module__, owner, fields_of=component.params.__name__))
        bounds: list[Bound] = []
        for source in component.sources(params) if component.sources else operators_of(params, owner):
            if isinstance(source, Bound):
                bounds.append(source)
            elif isinstance(source, Path):
                self._add_data(source.name, file_digest(source))
            else:
                self._add_module(source, owner)
        for bound in with_used(bounds):
            self._add_operator(bound)

    def add_verifiers(self, names: list[str] | None) -> None:
        """Add the registered verifiers among `names`; None: all verifiers."""
        registry = operators("verifier")
        for name in registry.names() if names is None else [name for name in names if name in registry]:
            self._add_module(registry.entry(name).target.partition(":")[0], f"verifier operator {name!r}")
            if operator := registry.from_file(name):
                self.code.add(self._closures.of_user(operator.code))

    def _add_operator(self, bound: Bound) -> None:
        registered, *others = bound.modules
        for module in [registered, *(other for other in others if self._closures.counts(other, registered))]:
            self._add_module(module, f"{bound.slot} operator {bound.name!r}")
        if bound.file:  # its name has the digest of its content
            self.code.add(self._closures.of_user(bound.file.code))
        for path in bound.config.local_files():
            self._add_data(path.name, file_digest(path))
        for uri in bound.config.s3_addresses():
            self._add_data(uri, self._objects(uri))
        self.operators.append(
            {"slot": bound.slot.name, "name": bound.name, "config": bound.config.model_dump(mode="json")}
        )

    def _add_module(self, module: str, owner: str) -> None:
        self.code.add(self._closures.of(module, owner))

    def _add_data(self, name: str, digest: str) -> None:
        self.code.files[f"{name} ({digest[:12]})"] = digest  # by content: equal names must not hide each other


def reads_objects(component: Component, params: Params) -> bool:
    """Return whether operators of a component read objects of a bucket, which a fingerprint lists."""
    sources = component.sources(params) if component.sources else operators_of(params, component.name)
    return any(bound.config.s3_addresses() for bound in with_used([one for one in sources if isinstance(one, Bound)]))
