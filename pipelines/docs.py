"""Tables in component READMEs, written from the declarations: `python -m pipelines.docs` (make docs) renews them."""

from __future__ import annotations

import re
from pathlib import Path

from components.contract.component import Component
from components.contract.registry import components
from pipelines.cli.catalog import describe_fields

BEGIN, END = "<!-- parameters -->", "<!-- /parameters -->"
BLOCK = re.compile(re.escape(BEGIN) + r".*?" + re.escape(END), re.DOTALL)
COMPONENTS = Path(__file__).parents[1] / "components"


def parameter_table(component: Component) -> str:
    """Return a component's parameters as a Markdown table."""
    rows = [
        f"| `{name}` | {_cell(type)} | {_cell(default)} | {_cell(doc)} |"
        for name, type, default, doc in describe_fields(component.params)
    ]
    return "\n".join(["| parameter | type | default | what it is |", "| --- | --- | --- | --- |", *rows])


def renewed(text: str, component: Component) -> str:
    """Return a README with its parameter block renewed; raise ValueError when it has none."""
    if not BLOCK.search(text):
        raise ValueError(f"README of {component.name}: no block {BEGIN} ... {END}")
    block = f"{BEGIN}\n{parameter_table(component)}\n{END}"
    return BLOCK.sub(lambda _: block, text)


def readmes() -> dict[Path, Component]:
    """Return the README of every in-tree component."""
    found = {}
    for name in components().names():
        path = COMPONENTS / name / "README.md"
        if path.is_file():
            found[path] = components().get(name)
    return found


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> None:
    """Renew the parameter tables of all READMEs."""
    for path, component in readmes().items():
        path.write_text(renewed(path.read_text(encoding="utf-8"), component), encoding="utf-8")


if __name__ == "__main__":
    main()
