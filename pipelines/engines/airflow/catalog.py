"""Which recipes Airflow shows as DAGs. Imports no Airflow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from components.contract.errors import InputError
from pipelines.language.find import FOLDER, recipe_files

SHOW_METHODS = "POSTTRAIN_AIRFLOW_METHODS"
"""Variable of Airflow's environment: 1 makes DAGs of the shipped reproductions of methods, too."""
SWITCH = {"": False, "0": False, "false": False, "1": True, "true": True}


def shown_recipes(environ: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Return name -> file of the recipes that are DAGs: all but the shipped reproductions, unless these are asked for.

    Raises InputError if the switch has an unknown value.
    """
    given = environ.get(SHOW_METHODS, "")
    if (everything := SWITCH.get(given.strip().lower())) is None:
        raise InputError(f"{SHOW_METHODS}={given!r}: expected 1 or 0")
    return {name: path for name, path in recipe_files().items() if everything or not is_reproduction(path)}


def is_reproduction(path: Path) -> bool:
    """Return whether a recipe is a shipped reproduction of a method; those in folders of one's own are recipes."""
    return path.is_relative_to(FOLDER / "methods")
