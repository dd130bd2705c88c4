"""Imported by a fork server after all its other preloads: keeps their source, and examines it once for all its jobs.

What is asked about installed packages is read here, too: their metadata took most of a short job of a plug-in.
"""

from __future__ import annotations

import sys
from pathlib import Path

from components.contract.errors import InputError
from components.contract.registry import components, plugged_in
from components.runtime.closure.loaded import TEXTS, keep_loaded_source
from components.runtime.closure.locate import OURS, PLANNING, packages_of, required_libraries
from components.runtime.closure.source import keep_analyses, read_source
from components.runtime.closure.walk import is_wall


def examine_loaded() -> None:
    """Analyse the kept source of modules that may count in fingerprints; what cannot be read is left to the job."""
    for name, module in list(sys.modules.items()):
        path = Path(getattr(module, "__file__", None) or "")
        if path not in TEXTS or is_wall(name) or name.partition(".")[0] in PLANNING:
            continue
        try:
            source = read_source(path, name, hasattr(module, "__path__"))
        except InputError:
            continue
        if name.partition(".")[0] != OURS:
            for used in {name, *source.names, *source.named}:
                packages_of(used.partition(".")[0])


keep_loaded_source()
examine_loaded()
keep_analyses()
packages_of(OURS)  # which reads what is installed, once
required_libraries()
components()  # and what it registers
plugged_in()
