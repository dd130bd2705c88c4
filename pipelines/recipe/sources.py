"""What the sources of a stage are called, and the word `without`, which leaves some of them out of a recipe.

A source is called by what it reads (the name of a published set, of a dataset on the hub, of a file, a task), by its
operator's name, or by its domain; STAGE.name is the source of one stage alone. All of these are read from parameters as
plain values, those of a recipe or those that a ledger recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from components.contract.operator_files.names import plain_name, written_name
from components.tasks.published.catalogue import PUBLISHED
from pipelines.language.nodes import Node, sequence
from pipelines.language.problems import Problems, meant, shown

SOURCES = "sources"
"""Parameter of a stage that lists its sources."""
WITHOUT = "without"
PREFIX = "source:"
PASSES_ON = ("artifact", "artifact_pairs")
"""The operators that read what another stage made: they are no sources from outside."""
READS_DATA = ("set", "dataset", "path")
READS = (*READS_DATA, "task")
"""Settings of which the first that is there says what an operator reads."""


@dataclass(frozen=True)
class NamedSource:
    """One source of a stage."""

    position: int
    """Place among the sources of its stage."""
    label: str
    """What it reads."""
    names: frozenset[str]
    """Whatever it may be called by."""
    place: str
    """What it reads, with the whole path of a file: two sources of one label may differ in it."""
    license: str | None
    """As the recipe or the catalogue of published sets says."""
    revision: str | None
    domain: str | None = None
    is_data: bool = False
    """Whether it reads data from outside; others make their rows by a program."""

    def is_called(self, names: Iterable[str], stage: str) -> bool:
        """Return whether one of these names means this source of a stage: its own, or STAGE.name."""
        return any(name in self.names or name.removeprefix(f"{stage}.") in self.names for name in names)


def named_sources(params: Mapping[str, Any]) -> list[NamedSource]:
    """Return the sources of a stage's parameters, without those that pass on what another stage made."""
    listed = params.get(SOURCES)
    if not isinstance(listed, list):
        return []
    found = (_named(position, share) for position, share in enumerate(listed))
    return [source for source in found if source is not None]


def plain_source(text: str) -> str:
    """Return the name of a source without `source:` in front."""
    return text.removeprefix(PREFIX)


class Removal:
    """Leaves the sources that `without` names out of the parameters of every stage, and notes what that breaks."""

    def __init__(self, root: Node, problems: Problems) -> None:
        self._node, self._problems = root.child(WITHOUT), problems
        self.names: dict[str, Node] = {}
        """Name -> where it stands."""
        self._known: dict[str, set[str]] = {}
        """Name of any source -> the places that it means."""
        self._used: set[str] = set()
        """Names that some source is called by, those of one stage's among them."""
        listed = self._node.value if self._node is not None else None
        if listed is None:
            return
        for node in listed if isinstance(listed, list) else [self._node]:
            assert node is not None
            if isinstance(node.value, str) and plain_source(node.value):
                self.names[plain_source(node.value)] = node
            else:
                problems.add(
                    node.mark, f"without: got {shown(node.plain())}, expected names of sources, such as [gsm8k]"
                )

    def drop(self, stage: str, params: Node) -> Node:
        """Return the parameters of a stage without the named sources."""
        node = params.child(SOURCES)
        if not self.names or node is None or not isinstance(node.value, list) or node.holds_unknown():
            return params
        found = named_sources({SOURCES: node.plain()})
        for source in found:
            for name in source.names:
                self._known.setdefault(name, set()).add(source.place)
        gone = {source.position for source in found if source.is_called(self.names, stage)}
        if not gone:
            return params
        self._used |= {name for name in self.names if any(source.is_called([name], stage) for source in found)}
        left = [child for position, child in enumerate(node.value) if position not in gone]
        if not left:
            named = sorted(name for name in self.names if any(source.is_called([name], stage) for source in found))
            what = f"stage {stage!r} has no other source than {' and '.join(map(repr, named))}"
            self._problems.add(self.names[named[0]].mark, f"without: {what}; nothing would be left to make it from")
            return params
        entries = {**params.value, SOURCES: sequence(left, node.mark, node.key)}
        return Node(entries, params.mark, params.key, params.origin, params.size, params.home)

    def check(self) -> None:
        """Note names that no source has, and those of several files; call it when all stages were read."""
        for name, node in self.names.items():
            places = self._known.get(name)
            if places is None and name not in self._used:
                self._problems.add(
                    node.mark, f"without: unknown source {shown(name)}{meant(name, sorted(self._known))}"
                )
            elif places and len(places) > 1 and all(PurePosixPath(place).name == name for place in places):
                listed = ", ".join(sorted(places))
                self._problems.add(node.mark, f"without: {shown(name)} is several files; name one of {listed}")


def _named(position: int, share: Any) -> NamedSource | None:
    inner = share.get("source", share) if isinstance(share, Mapping) else share
    domain = share.get("domain") if isinstance(share, Mapping) else None
    chain = list(_operators(inner))
    if not chain or all(_name(one) in PASSES_ON for one in chain):
        return None
    places = [place for one in chain if (place := _reads(one))]
    place = places[-1] if places else _name(chain[0])
    label = _short(place)
    names = {label, place, *map(_name, chain), *(str(domain),)} if domain else {label, place, *map(_name, chain)}
    known = next((PUBLISHED[str(one["set"])] for one in chain if str(one.get("set")) in PUBLISHED), None)
    hub = {known.hub} if known else set()
    stated = next((one["license"] for one in chain if isinstance(one.get("license"), str)), None)
    revision = next((one["revision"] for one in chain if isinstance(one.get("revision"), str)), None)
    return NamedSource(
        position,
        label,
        frozenset(names | hub),
        place,
        stated or (known.license if known else None),
        revision,
        domain if isinstance(domain, str) else None,
        any(one.get(key) for one in chain for key in READS_DATA),
    )


def _operators(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a source's operator and those that it reads from in turn, the outermost first."""
    while True:
        if isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
            return
        yield value
        value = value.get("source")


def _name(operator: Mapping[str, Any]) -> str:
    name = str(operator["name"])
    found = written_name(name)
    return f"{PurePosixPath(found.path).name}:{found.function}" if found else plain_name(name)


def _reads(operator: Mapping[str, Any]) -> str | None:
    values = (operator.get(key) for key in READS)
    return next((value for value in values if isinstance(value, str) and value), None)


def _short(place: str) -> str:
    """Return the name of a file; other places, such as a dataset's on the hub or a bucket's, as they are."""
    is_file = place.startswith(("/", ".")) or PurePosixPath(place).suffix in (".jsonl", ".parquet", ".gz", ".zst")
    return PurePosixPath(place).name if is_file and "://" not in place else place
