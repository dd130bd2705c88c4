"""The differences of two recipes, each of which can be taken over by itself, by kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from components.contract.terminal import visible_line
from pipelines.bisection.trees import ABSENT, Place, Tree, differing, put, value_at
from pipelines.language.uris import is_uri

DATA, PARAMETERS, CODE, PACKAGES = "data", "parameters", "code", "packages"
KINDS = (DATA, PARAMETERS, CODE, PACKAGES)
MAX_TEXT = 60
SEEDS = (("seed",), ("matrix", "seed"))
"""Both ends get the same seeds, so these are no differences."""
_OWN_CODE = re.compile(r"\.py:[A-Za-z_]\w*(@[0-9a-f]+)?$")


@dataclass(frozen=True)
class Part:
    """One place at which the recipes differ."""

    path: Place
    good: Any
    bad: Any
    default: Any = ABSENT
    """What stands for a parameter of a stage that one side does not set."""

    @property
    def name(self) -> str:
        """Return the place as --set takes it."""
        steps = self.path[1:] if self.path[0] == "params" else self.path
        return ".".join(map(str, steps))

    @property
    def text(self) -> str:
        """Return place and values in one line."""
        return f"{self.name}: {self._shown(self.good)} -> {self._shown(self.bad)}"

    def _shown(self, value: Any) -> str:
        if value is ABSENT and self.default is not ABSENT:
            return f"{_shown(self.default)} (default)"
        return _shown(value)


@dataclass(frozen=True)
class Difference:
    """What is taken over from BAD together."""

    parts: tuple[Part, ...] = ()
    kind: str = PARAMETERS
    stages: tuple[str, ...] = ()
    """The stages whose work it changes by itself, in the order of the recipe; empty if it does not stand alone."""
    rooms: tuple[str, ...] = ()
    """Of a difference of the code: the folders that come from the other version."""
    says: str = ""
    """Of a difference of the code: what it is, in words."""

    @property
    def name(self) -> str:
        """Return what is different."""
        if self.says:
            return self.says
        more = f" and {len(self.parts) - 1} more" if len(self.parts) > 1 else ""
        return f"{self.parts[0].name}{more}"

    @property
    def text(self) -> str:
        """Return what is different, with both values."""
        return self.says or "; ".join(part.text for part in self.parts)


def differences(good: Tree, bad: Tree) -> list[Difference]:
    """Return in what two trees differ; what refers to something that only one of them has goes with it."""
    parts = [
        Part(path, value_at(good, path), value_at(bad, path)) for path in differing(good, bad) if path not in SEEDS
    ]
    return [Difference(tuple(group), _kind(group)) for group in _together(parts)]


def apply(tree: Tree, chosen: Sequence[Difference]) -> None:
    """Give a tree BAD's values of these differences."""
    for difference in chosen:
        for part in difference.parts:
            put(tree, part.path, part.bad)


def with_stages(difference: Difference, stages: Sequence[str], *, data: bool) -> Difference:
    """Return a difference with the stages that it changes; `data`: the first of them makes rows."""
    kind = DATA if data and difference.kind == PARAMETERS else difference.kind
    return replace(difference, stages=tuple(stages), kind=kind)


def _together(parts: Sequence[Part]) -> list[list[Part]]:
    """Return the parts in groups: what one side alone has, with everything of that side that refers to it."""
    group = list(range(len(parts)))
    for index, part in enumerate(parts):
        word = _referred(part)
        for other, its in enumerate(parts):
            side = its.good if part.bad is ABSENT else its.bad
            if word is not None and other != index and any(word.search(text) for text in _texts(side)):
                old, new = group[other], group[index]
                group = [new if number == old else number for number in group]
    found: dict[int, list[Part]] = {}
    for number, part in zip(group, parts, strict=True):
        found.setdefault(number, []).append(part)
    return list(found.values())


def _referred(part: Part) -> re.Pattern[str] | None:
    """Return how others refer to a stage, a parameter or an axis that one side alone has."""
    if ABSENT not in (part.good, part.bad) or len(part.path) < 2:
        return None
    place, name = str(part.path[0]), re.escape(str(part.path[-1]))
    if place == "stages" and part.path[-2] == "stages":
        return re.compile(rf"(?<![\w.-]){name}(?=[.\[]|$)")
    return re.compile(rf"(?<![\w.-]){place}\.{name}(?![\w-])") if place in ("params", "matrix") else None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(inner)


def _kind(parts: Sequence[Part]) -> str:
    """Return the kind of a difference, as far as its places say it."""
    if all(part.path[0] == "code" for part in parts):
        return PACKAGES
    texts = [text for part in parts for side in (part.good, part.bad) for text in _texts(side)]
    if any(_OWN_CODE.search(text) for text in texts):
        return CODE
    inputs = [part for part in parts if "in" in part.path[2:]]
    found = [text for part in inputs for side in (part.good, part.bad) for text in _texts(side) if is_uri(text)]
    return DATA if found else PARAMETERS


def _shown(value: Any) -> str:
    text = "not there" if value is ABSENT else visible_line(str(value))
    text = re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1", text)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."
