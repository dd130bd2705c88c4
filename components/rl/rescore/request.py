"""What a person asks of rescore: the stage's parameters with another reward, and another verifier. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from components.contract.errors import InputError, schema_problems
from components.contract.operator_files import library
from components.contract.operator_files.declared import declared_function
from components.contract.operator_files.gather import read_code
from components.contract.operator_files.names import plain_name, written_name
from components.contract.operators import OperatorSpec
from components.contract.slots import Slot
from components.rl.params import RLParams
from components.rl.slots import COMBINE, REWARD
from components.tasks.slots import VERIFIER


def params_with(params: RLParams, rewards: Sequence[str], combine: str | None) -> RLParams:
    """Return the stage's parameters with these rewards, as a recipe writes each, and this combination.

    Raises InputError or UnknownName, in one line, for one that does not exist, or does not fit.
    """
    slots: dict[str, Any] = {}
    if rewards:
        slots["rewards"] = [spec_of(text, REWARD).model_dump() for text in rewards]
    if combine is not None:
        slots["combine"] = spec_of(combine, COMBINE).model_dump()
    given = params.model_dump(mode="json", exclude_unset=True)
    phases = [
        {**phase, "slots": {key: value for key, value in phase.get("slots", {}).items() if key not in slots}}
        for phase in given.get("phases", ())
    ]
    try:
        return RLParams.model_validate({**given, **slots, **({"phases": phases} if phases else {})})
    except ValidationError as error:
        raise InputError(f"rescore: {schema_problems(error)}") from None


def verifier_with(text: str) -> dict[str, Any]:
    """Return the name and the settings of a verifier, as rows have them."""
    spec = spec_of(text, VERIFIER)
    return {"name": spec.name, "settings": spec.settings}


def spec_of(text: str, slot: Slot) -> OperatorSpec:
    """Return an operator as a recipe writes it: a name, ./file.py:function, or a mapping in YAML; it must exist."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise InputError(f"--{slot.name} {text!r}: not a name and no mapping of YAML") from None
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise InputError(f"--{slot.name} {text!r}: expected a name, ./file.py:function, or {{name: ..., settings}}")
    spec = OperatorSpec.model_validate({**value, "name": _travelling(value["name"])}).in_slot(slot)
    spec.resolve()
    return spec


def judge_text(params: RLParams) -> str:
    """Return the rewards of a stage for people, of its first phase: "verifier, new.py:f (weight 0.1), by gate"."""
    slots = params.slots(params.phases[0] if params.phases else None)
    by = "" if slots.combine.name == COMBINE.default else f", by {_shown(slots.combine)}"
    return ", ".join(map(_shown, slots.rewards)) + by


def _shown(spec: OperatorSpec) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in spec.settings.items())
    return f"{plain_name(spec.name)}{f' ({settings})' if settings else ''}"


def _travelling(name: str) -> str:
    """Return the name by which a function in a file is known; any other as it is."""
    written = written_name(name)
    if written is None:
        return name
    code = read_code(Path(written.path).expanduser().absolute(), written.path)
    declared_function(code, written.function)
    library.keep([code])
    return code.name(written.function)
