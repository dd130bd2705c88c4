"""Hostile and broken text: whatever a recipe file holds, it is a recipe or it is refused in words."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from pipelines.language.problems import RecipeErrors
from pipelines.plan.plan import build_plan
from pipelines.recipe.recipe import Recipe, load_recipe

pytestmark = pytest.mark.usefixtures("toy_catalog")

FOLDER = Path(__file__).parents[1]
VALID = [(FOLDER / "recipes" / name).read_bytes() for name in ("tiny.yaml", "loops.yaml")]
WORDS = sorted({word for text in VALID for word in re.findall(rb"[\w.${}\[\]=-]+", text)})
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    10**9,
    1.5,
    "",
    "x",
    "../x",
    "$(x)",
    "${params.x}",
    "a.b",
    "rl.model",
    [],
    {},
    [[]],
]
ODD += [
    {"name": 1},
    {"default": 1},
    {"a": {"b": ["c"]}},
    "matrix",
    "none",
    "carry.model",
    "x" * 5000,
    "\u202e",
    "[",
    "hf:a",
]


def judge(path: Path, *overrides: str) -> Recipe | None:
    """Load a recipe; anything but a recipe or a refusal with places fails the test."""
    try:
        recipe = load_recipe(str(path), overrides)
    except RecipeErrors as errors:
        assert errors.problems
        for problem in errors.problems:
            place = str(problem.mark)
            assert (
                problem.mark.line >= 1
                or place.startswith("--set")
                or not place.endswith(".yaml")
                or ("larger" in problem.message)
            )
            assert "\n" not in problem.message and "Traceback" not in problem.message
            assert str(problem).isprintable()
        return None
    assert len(build_plan(recipe, "store", "run").digest) == 64
    return recipe


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "fuzz.yaml"


def test_the_seeds_are_valid(file: Path) -> None:
    for text in VALID:
        file.write_bytes(text)
        assert judge(file) is not None


@FUZZ
@given(st.binary(max_size=200))
def test_any_bytes(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    judge(file)


@FUZZ
@given(st.sampled_from(VALID), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_flipped_bytes(file: Path, text: bytes, flips: list[tuple[float, int]]) -> None:
    data = bytearray(text)
    for place, value in flips:
        data[int(place * (len(data) - 1))] = value
    file.write_bytes(bytes(data))
    judge(file)


@FUZZ
@given(st.sampled_from(VALID), st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_swapped_words(file: Path, text: bytes, seed: int, count: int) -> None:
    chance = random.Random(seed)
    for _ in range(count):
        old, new = chance.choice(WORDS), chance.choice(WORDS)
        places = [match.start() for match in re.finditer(re.escape(old), text)]
        if places:
            start = chance.choice(places)
            text = text[:start] + new + text[start + len(old) :]
    file.write_bytes(text)
    judge(file)


@FUZZ
@given(st.sampled_from(VALID), st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_mutated_trees(file: Path, text: bytes, seed: int, count: int) -> None:
    chance = random.Random(seed)
    tree = yaml.safe_load(text)
    for _ in range(count):
        mutate(tree, chance)
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    judge(file)


@FUZZ
@given(st.text(max_size=60), st.sampled_from(["", "stages.", "stages.rl.with.", "params.", "defaults.", "matrix."]))
def test_any_override(file: Path, text: str, prefix: str) -> None:
    file.write_bytes(VALID[0])
    judge(file, prefix + text)


@FUZZ
@given(st.text(max_size=40))
def test_any_name(text: str) -> None:
    try:
        load_recipe(text)
    except InputError as error:
        assert str(error)


def mutate(tree: dict[str, Any], chance: random.Random) -> None:
    """Rename a key, drop a value, or put another value in its place, somewhere in the tree."""
    spots = list(_spots(tree))
    parent, key = chance.choice(spots)
    kind = chance.randrange(4)
    if kind == 0 and isinstance(parent, dict):
        parent[chance.choice([str(key) + "x", str(key)[:-1] or "y", "uses", "matrix", "repeat", "../k"])] = parent.pop(
            key
        )
    elif kind == 1:
        del parent[key]
    elif kind == 2:
        other, other_key = chance.choice(spots)
        parent[key] = yaml.safe_load(yaml.safe_dump(other[other_key]))
    else:
        parent[key] = chance.choice(ODD)


def _spots(tree: Any) -> list[tuple[Any, Any]]:
    items = list(tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ())
    return [spot for key, value in items for spot in [(tree, key), *_spots(value)]]
