"""A preset's operators, for tests against the authors' released formulas."""

from __future__ import annotations

from components.contract.operators import Bound
from components.rl.presets import bind, load_preset
from components.rl.slots import Slots


def slots_of(method: str) -> Slots:
    """Return what fills a preset's slots."""
    return bind(load_preset(method).slots)


def advantage_of(method: str, name: str) -> Bound:
    """Return an advantage operator with the preset's settings."""
    (found,) = [bound for bound in slots_of(method).advantages if bound.name == name]
    return found
