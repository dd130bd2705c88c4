"""The tables for people who come from TRL or verl: our names exist with the defaults said, and so do those of TRL."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from components.contract import registry
from components.contract.operators import config_of
from components.modeling.models.lora import LoraConfig
from pipelines.docs.guides import ROOT
from tests.support.guides import rows

PAGE = (ROOT / "pipelines" / "docs" / "migration.md").read_text(encoding="utf-8")
TABLES = {"GRPOConfig": "rl", "SFTConfig": "sft", "DPOConfig": "preference", "ppo_trainer.yaml": "rl"}
BACKEND = ("sampler", "trainer", "zero_stage", "offload", "recompute")
ELSEWHERE = {"seed", "name", "pool", "in.model", *(f"backend.{key}" for key in BACKEND)}
"""Words of a recipe, which have no default of their own."""
SITE = Path(next(iter(find_spec("transformers").submodule_search_locations))).parent  # type: ignore[union-attr,arg-type]


def plain(text: str) -> Any:
    """Return a value as tables write it; YAML takes 1e-08 for text."""
    value = None if text == "None" else yaml.safe_load(text)
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def field(model: type[BaseModel], path: list[str], name: str) -> Any:
    """Return the default of a parameter, as JSON."""
    assert path[0] in model.model_fields, name
    info = model.model_fields[path[0]]
    if len(path) > 1:
        return field(info.annotation, path[1:], name)  # type: ignore[arg-type]
    given = info.get_default(call_default_factory=True, validated_data={})
    return None if info.is_required() else to_jsonable_python(given)


def default(name: str, component: str) -> Any:
    """Return the default of one of our names; None for one that has none. It must exist."""
    first, *rest = name.split(".")
    if name in ELSEWHERE:
        return None
    if first == "lora":
        return field(LoraConfig, rest, name)
    if first in registry.slots() and rest:
        function = registry.operators(registry.slots()[first]).get(rest[0])
        return field(config_of(function, name), rest[1:], name) if rest[1:] else None
    if first in registry.components().names() and rest:
        return field(registry.components().get(first).params, rest, name)
    return field(registry.components().get(component).params, [first, *rest], name)


@pytest.mark.parametrize(("heading", "component"), TABLES.items())
def test_our_names_exist_with_the_defaults_that_the_tables_say(heading: str, component: str) -> None:
    table = rows(PAGE, heading)
    assert len(table) >= 15
    for _, _, ours, said, remark in table:
        found = [default(name, component) for name in named(ours)]
        if said:
            assert found == [plain(said)], ours
        for name in named(remark):
            if name.partition(".")[0] in registry.slots() and "." in name:
                default(name, component)


def test_a_wrong_name_or_default_is_noticed() -> None:
    assert default("objective.ppo_clip.clip_low", "rl") == 0.2
    for name in ("group_sise", "objective.ppo_clip.clip_lower", "optimizer.rate"):
        with pytest.raises(AssertionError):
            default(name, "rl")


def declared(file: Path, name: str) -> dict[str, Any]:
    """Return field -> default of a dataclass of TRL or transformers, read from its text."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    [config] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    found = {}
    for node in config.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.Call):
            given = [keyword.value for keyword in node.value.keywords if keyword.arg == "default"]
            simple = given and isinstance(given[0], ast.Constant | ast.UnaryOp)
            found[node.target.id] = ast.literal_eval(given[0]) if simple else None
    return found


@pytest.mark.skipif(find_spec("trl") is None, reason="TRL is installed with the test packages")
@pytest.mark.parametrize("name", ["GRPOConfig", "SFTConfig", "DPOConfig"])
def test_trls_keys_exist_with_the_defaults_that_the_tables_say(name: str) -> None:
    trainers = SITE / "trl" / "trainer"
    own = declared(trainers / f"{name.lower().removesuffix('config')}_config.py", name)
    everybody = declared(SITE / "transformers" / "training_args.py", "TrainingArguments")
    keys = {**everybody, **declared(trainers / "base_config.py", "_BaseConfig"), **own}
    assert len(keys) > 100
    for theirs, said, *_ in rows(PAGE, name):
        values = [part.strip() for part in said.split(",")]
        assert len(values) == len(named(theirs)), theirs
        for key, value in zip(named(theirs), values, strict=True):
            assert key in keys, key
            assert str(keys[key]) == value or keys[key] == plain(value), f"{key}: {keys[key]}"


def test_the_versions_that_the_page_names_are_those_of_the_lock() -> None:
    lock = "\n".join((ROOT / "infra" / "requirements" / f"{name}.lock").read_text() for name in ("test", "stages"))
    for package, words in {"trl": "TRL", "transformers": "transformers"}.items():
        [version] = re.findall(rf"^{package}==(.+)$", lock, re.MULTILINE)
        assert f"{words} {version}" in PAGE
