"""Methods: each equals its row of the coordinate table, every constant is cited, overrides show."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from components.contract.errors import UnknownName
from components.contract.operators import OperatorSpec
from components.rl.component import COMPONENT
from components.rl.params import RLParams
from components.rl.presets import FOLDER, bind, load_preset, preset_names
from components.rl.slots import step_slots
from components.runtime.ledger.fingerprint import fingerprint

TABLE = FOLDER / "README.md"
COMMON = {
    "sampler": "epoch_shuffle",
    "rollout": "group",
    "guidance": "none",
    "reference": "none",
    "schedule": "constant",
}
COMMON |= {"replay": "none", "critic": "none", "combine": "sum"}


def _rows(block: str) -> list[dict[str, str]]:
    """The rows of one generated table, by column."""
    text = TABLE.read_text(encoding="utf-8").partition(f"<!-- {block} -->")[2].partition("<!-- /")[0]
    lines = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.strip().splitlines()]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


def _cell(slot: str, given: Any) -> str:
    """An operator as a preset's YAML has it, in the words of the table."""
    if isinstance(given, list):
        return " + ".join(_cell(slot, each) for each in given) or "-"
    name, settings = (given, {}) if isinstance(given, str) else (given["name"], given)
    shown = []
    for key, value in settings.items():
        if key != "name" and (slot != "objective" or key not in ("denominator", "constant")):
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            shown.append(f"{key} {value:g}" if is_number else f"{key} {json.dumps(value)}".replace('"', ""))
    return f"{name}({', '.join(shown)})" if shown else name


def test_the_tables_have_a_row_for_every_method() -> None:
    shipped = sorted(path.stem for path in FOLDER.glob("*.yaml"))
    assert [row["method"].strip("`") for row in _rows("coordinates")] == shipped
    presets = [row for row in _rows("index") if row["what it is"] == "preset"]
    assert [row["method"].partition("`")[2].partition("`")[0] for row in presets] == shipped


@pytest.mark.parametrize("slug", preset_names())
def test_a_preset_equals_its_row(slug: str) -> None:
    row = next(row for row in _rows("coordinates") if row.pop("method") == f"`{slug}`")
    slots = {"replay": "none", "critic": "none", "combine": "sum", "annotate": []} | yaml.safe_load(
        (FOLDER / f"{slug}.yaml").read_text()
    )["slots"]
    objective = slots["objective"]
    settings = [str(objective[key]) for key in ("denominator", "constant") if key in objective]
    expected = {slot: "." if given == COMMON.get(slot) else _cell(slot, given) for slot, given in slots.items()}
    written = {slot: cell.replace('"', "").replace("\\|", "|") for slot, cell in row.items()}
    assert written == expected | {"denominator": " ".join(settings) or "-"}


@pytest.mark.parametrize("slug", preset_names())
def test_every_constant_of_a_preset_has_a_source_and_no_source_is_left_over(slug: str) -> None:
    preset = load_preset(slug)
    assert preset.slug == slug
    constants = set()
    for slot in step_slots():
        given = vars(preset.slots)[slot]
        for spec in (given,) if isinstance(given, OperatorSpec) else given:
            constants |= {f"{slot}.{spec.name}.{key}" for key in spec.settings}
    assert set(preset.sources) == constants


@pytest.mark.parametrize("slug", preset_names())
def test_a_preset_states_every_setting_of_its_operators(slug: str) -> None:
    """A method alone is the paper's setting: a changed default of an operator must not change it."""
    for place, bound in bind(load_preset(slug).slots).places():
        stated = bound.config.model_fields_set
        neutral = {"weight", "constant"}  # 1, and the token limit
        neutral |= {"denominator"} if place.startswith("regularizers/") else set()  # the objective's
        assert set(type(bound.config).model_fields) - stated <= neutral, place


def test_overrides_change_only_what_they_name() -> None:
    params = RLParams.model_validate(
        {"method": "dapo", "objective": {"name": "ppo_clip", "clip_high": 0.4}, "filters": []}
    )
    slots, preset = params.slots(), load_preset("dapo").slots
    assert slots.objective.settings == {"clip_low": 0.2, "clip_high": 0.4, "denominator": "tokens"}
    assert slots.filters == ()
    changed = {name for name in step_slots() if vars(slots)[name] != vars(preset)[name]}
    assert changed == {"objective", "filters"}


def test_another_operator_takes_nothing_from_the_preset() -> None:
    params = RLParams.model_validate(
        {"method": "grpo", "advantages": ["leave_one_out"], "objective": "policy_gradient"}
    )
    assert params.slots().objective.settings == {}
    assert bind(params.slots()).objective_config.denominator == "tokens"


@pytest.mark.parametrize(
    "given, field, words",
    [
        ({"method": "grpp"}, "method", "unknown rl method 'grpp'; did you mean 'grpo'?"),
        ({"objective": "ppo_clp"}, "objective", "did you mean 'ppo_clip'?"),
        ({"advantages": ["group_means"]}, "advantages", "did you mean 'group_mean'?"),
        ({"regularizers": [{"name": "kl", "coeficient": 1}]}, "regularizers", "coefficient"),
        ({"regularizers": [{"name": "kl", "coefficient": -1}]}, "regularizers", "greater than or equal to 0"),
        ({"objective": {"name": "ppo_clip", "denominator": "sequences"}}, "objective", "'tokens', 'responses'"),
        ({"rewards": []}, None, "at least one reward"),
        ({"reference": "none"}, None, "kl compares with a reference policy, but reference is 'none'"),
        ({"temperature": 0}, "temperature", "greater than 0"),
        ({"optimizer": {"peak_lr": 1}}, "optimizer", "Extra inputs"),
    ],
)
def test_mistakes_are_named_at_their_field(given: dict[str, object], field: str | None, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RLParams.model_validate(given)
    (error,) = caught.value.errors()
    assert (error["loc"][0] if error["loc"] else None) == field
    assert words in error["msg"]


def test_unknown_methods_and_foreign_operators_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'dapo'"):
        load_preset("dapos")
    with pytest.raises(ValidationError, match="unknown objective operator 'kl'"):
        RLParams.model_validate({"objective": "kl"})


def test_sources_are_the_preset_and_the_chosen_operators() -> None:
    params = RLParams(method="grpo", regularizers=(), reference=OperatorSpec(name="none"))
    parts = fingerprint(COMPONENT, params, {}, 0).parts
    assert {"slot": "advantage", "name": "group_mean_std", "config": {"epsilon": 1e-6, "ddof": 1}} in parts["operators"]
    found = {path.removeprefix("components/rl/") for path in parts["code"]}
    assert "operators/advantages/group_mean_std.py" in found
    assert not {"operators/regularizers/kl.py", "operators/filters/dynamic_sampling.py"} & found


def test_planning_imports_nothing_heavy() -> None:
    code = (
        "import sys; from components.rl.component import COMPONENT; from components.rl.params import RLParams;"
        "from components.runtime.ledger.fingerprint import fingerprint; fingerprint(COMPONENT, RLParams(), {}, 0);"
        "print([m for m in ('torch', 'numpy', 'transformers', 'datasets') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
