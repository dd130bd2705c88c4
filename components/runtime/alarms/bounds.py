"""Bounds of a component's alarms: its own, or those that a recipe gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.contract.component import Component


def bounds_of(component: Component, given: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return the bound of every declared alarm, None for one that is off."""
    return {alarm.name: given.get(alarm.name, alarm.bound) for alarm in component.alarms}
