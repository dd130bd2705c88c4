"""Systems: published methods that are a recipe of any stages rather than one preset of `rl`.

    system:
      catalogue: 25
      paper: "Wang et al. 2025, Think or Not?, arXiv:2505.16854"
      summary: SFT drops half of the thoughts, so that RL can choose between thinking and answering at once
      sources: {stages.rl.with.group_size: released script}
      missing: [images]

A key of `sources` is the place of a constant in the recipe, after `extends`; `posttrain methods` lists the recipe
beside the presets. The block is the file's own: a recipe that extends a system is not that system.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.language.nodes import Node
from pipelines.language.problems import Problems, meant, shown
from pipelines.language.wording import add_schema_errors
from pipelines.recipe.grammar import MAX_SUMMARY_LENGTH

CITABLE = ("seed", "params", "matrix", "defaults", "stages")
"""Parts of a recipe that hold constants."""
NAMING = ("name", "domain", "label")
"""Keys that name an entry of a list, such as an operator or a source."""

Text = Annotated[str, Field(min_length=1)]


class SystemWords(BaseModel):
    """The section `system` of a recipe."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    catalogue: int | None = None
    """Id of the method in the catalogue of methods."""
    paper: Text
    """Authors, year, title, address."""
    summary: str = Field(min_length=1, max_length=MAX_SUMMARY_LENGTH)
    """One line: what sets it apart."""
    sources: dict[str, Text] = Field(default_factory=dict)
    """Place of a constant in this recipe, such as stages.rl.with.group_size -> where the constant comes from."""
    missing: list[Text] = Field(default_factory=list)
    """Parts of the paper that this recipe leaves out."""

    def source_of(self, place: str) -> str | None:
        """Return where the constant at `place` comes from: its own source, or that of the nearest mapping around it."""
        while place:
            if place in self.sources:
                return self.sources[place]
            place = place.rpartition(".")[0]
        return None


def read_system(own: Node, merged: Node, problems: Problems) -> SystemWords | None:
    """Return the system that a recipe declares; None if it declares none, or a problem was noted.

    `own` is the file itself; `merged` has its parents below it, and is what `sources` and the claim are looked up in.
    """
    node = own.child("system")
    if node is None or node.value is None:
        return None
    try:
        words = SystemWords.model_validate(node.plain())
    except ValidationError as error:
        add_schema_errors(problems, error, node, what="system.", schema=SystemWords)
        return None
    before = len(problems)
    for place in words.sources:
        try:
            constant_at(merged, place)
        except LookupError as error:
            problems.add(node.at(("sources", place)).where, f"system.sources: {shown(place)}: {error}")
    _check_claim(words, node, merged.child("hallmark"), problems)
    return words if len(problems) == before else None


def _check_claim(words: SystemWords, node: Node, hallmark: Node | None, problems: Problems) -> None:
    """Note a system without its own claim, or with a claim about another catalogue entry."""
    if hallmark is None or hallmark.value is None:
        problems.add(node.where, "system: the recipe has no 'hallmark'; a system says what is to be seen of it")
        return
    claimed = hallmark.child("catalogue")
    if claimed is not None and claimed.value != words.catalogue:
        place = node.at(("catalogue",))
        problems.add(
            place.mark, f"system.catalogue: got {shown(words.catalogue)}, the hallmark has {shown(claimed.value)}"
        )


def constant_at(root: Node, place: str) -> Node:
    """Return the value at a path such as stages.rl.with.group_size; raise LookupError naming where the path ends.

    Entries of lists are named by position, or by `names_of`.
    """
    steps = place.split(".")
    if steps[0] not in CITABLE:
        raise LookupError(f"expected the place of a constant, which begins with one of {', '.join(CITABLE)}")
    node = root
    for index, step in enumerate(steps):
        entries = _entries(node)
        if step not in entries:
            above = ".".join(steps[:index]) or "the recipe"
            raise LookupError(f"{above} has no {shown(step)}{meant(step, entries)}")
        node = entries[step]
    return node


def _entries(node: Node) -> dict[str, Node]:
    """Return what lies below a node by the steps that lead there: keys; for a list, positions and names of entries."""
    if isinstance(node.value, dict):
        return node.value
    items = node.value if isinstance(node.value, list) else []
    return {str(position): item for position, item in enumerate(items)} | dict(
        zip(names_of([item.plain() for item in items]), items, strict=True)
    )


def names_of(items: Sequence[Any]) -> dict[str, Any]:
    """Return the entries of a list by name: an operator's, a source's domain; by position where that is not its own."""
    found: dict[str, Any] = {}
    for position, item in enumerate(items):
        named = [item.get(key) for key in NAMING] if isinstance(item, dict) else [item]
        own = [name for name in named if isinstance(name, str) and name not in found and not name.isdecimal()]
        found[own[0] if own else str(position)] = item
    return found
