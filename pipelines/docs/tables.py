"""Tables in READMEs, generated from the declarations: `python -m pipelines.docs` (make docs) renews them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from components.contract.component import Component
from components.contract.registry import components
from components.rl.presets import FOLDER as METHODS
from pipelines.docs.fields import describe_fields
from pipelines.engines.engine import Capabilities
from pipelines.engines.registry import OWN, find_engine
from pipelines.language.whole_file import write_whole
from pipelines.methods.tables import (
    coordinate_table,
    earlier_table,
    index_table,
    result_table,
    shipped,
    shipped_systems,
)

PIPELINES = Path(__file__).parents[1]
COMPONENTS = PIPELINES.parent / "components"


def parameter_table(component: Component) -> str:
    """Return a component's parameters as a Markdown table."""
    rows = [
        f"| `{name}` | {_cell(type)} | {_cell(default)} | {_cell(doc)} |"
        for name, type, default, doc in describe_fields(component.params)
    ]
    return "\n".join(["| parameter | type | default | what it is |", "| --- | --- | --- | --- |", *rows])


def engine_table() -> str:
    """Return what the engines of this tree can do as a Markdown table."""
    known = [find_engine(name) for name in OWN]
    rows = [
        f"| {field.name.replace('_', ' ')} | "
        + " | ".join("yes" if getattr(engine.capabilities, field.name) else "" for engine in known)
        + " |"
        for field in fields(Capabilities)
    ]
    names = " | ".join(engine.name for engine in known)
    return "\n".join([f"| | {names} |", f"| --- |{' --- |' * len(known)}", *rows])


def renewed(text: str, blocks: Mapping[str, str]) -> str:
    """Return a README with its blocks, each from `<!-- name -->` to `<!-- /name -->`, renewed.

    Raises ValueError when it has no such block.
    """
    for name, content in blocks.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"no block {begin} ... {end}")
        block = f"{begin}\n{content}\n{end}".replace("\\", r"\\")
        text = pattern.sub(block, text)
    return text


def readmes() -> dict[Path, dict[str, str]]:
    """Return the READMEs with generated blocks: path -> block -> content."""
    found: dict[Path, dict[str, str]] = {}
    for name in components().names():
        path = COMPONENTS / name / "README.md"
        if path.is_file():
            found[path] = {"parameters": parameter_table(components().get(name))}
    found[PIPELINES / "engines" / "README.md"] = {"engines": engine_table()}
    presets = shipped()
    found[METHODS / "README.md"] = {
        "index": index_table(presets, shipped_systems()),
        "coordinates": coordinate_table(presets),
        "results": result_table(),
        "earlier": earlier_table(),
    }
    return found


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def renew_all() -> None:
    """Renew the blocks of all READMEs."""
    for path, blocks in readmes().items():
        write_whole(path, renewed(path.read_text(encoding="utf-8"), blocks))
