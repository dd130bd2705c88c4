"""READMEs say what the declarations say."""

from __future__ import annotations

from components.contract.registry import components
from pipelines.docs import readmes, renewed


def test_every_in_tree_component_has_a_readme_whose_parameter_table_is_current() -> None:
    found = readmes()
    assert {component.name for component in found.values()} == set(components().names())
    for path, component in found.items():
        text = path.read_text(encoding="utf-8")
        assert text == renewed(text, component), f"{path.name} of {component.name} is stale: make docs"
