"""READMEs say what the declarations say."""

from __future__ import annotations

from components.contract.registry import components
from pipelines.docs.tables import readmes, renewed


def test_every_in_tree_component_has_a_readme_and_all_generated_blocks_are_current() -> None:
    found = readmes()
    assert {path.parent.name for path in found} == {*components().names(), "methods", "engines"}
    for path, blocks in found.items():
        text = path.read_text(encoding="utf-8")
        assert text == renewed(text, blocks), f"{path.parent.name}/{path.name} is stale: make docs"
