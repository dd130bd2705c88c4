"""Small recipes over the toy components that use every word of the language, for tests that compare engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from pipelines.recipe.grammar import DEFAULT_KEYS, GROUP_KEYS, RECIPE_KEYS, STAGE_KEYS

FOLDER = Path(__file__).parent
RECIPES = sorted(FOLDER.glob("*.yaml"))
NOT_OF_ENGINES = {"hallmark", "system", "integrity", "without", "budget"}
"""Words that no engine sees: which method a recipe is, what it claims, which is checked after its runs, an audit, which
is a plain stage with a gate before an engine sees it, and sources that are left out, which are in no job. And a budget,
which needs pools with prices."""


def unused_words() -> set[str]:
    """Return the words of the language that none of the recipes uses."""
    every = {*RECIPE_KEYS, *GROUP_KEYS, *DEFAULT_KEYS, *STAGE_KEYS} - NOT_OF_ENGINES
    return every - {word for path in RECIPES for word in _keys(yaml.safe_load(path.read_text()))}


def _keys(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, child in node.items():
            yield key
            yield from _keys(child)
    elif isinstance(node, list):
        for child in node:
            yield from _keys(child)
