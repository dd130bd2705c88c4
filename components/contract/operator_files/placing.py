"""Operator files that plain data names, such as a preset that comes with a package: relative to the data's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.contract.operator_files import library
from components.contract.operator_files.declared import declared_function
from components.contract.operator_files.gather import read_code
from components.contract.operator_files.names import written_name


def placed(value: Any, folder: Path) -> Any:
    """Return plain data with every `./file.py:function` read from `folder` and named by its content.

    Raises InputError for a file or a function that is not there.
    """
    if isinstance(value, dict):
        return {name: placed(item, folder) for name, item in value.items()}
    if isinstance(value, list):
        return [placed(item, folder) for item in value]
    name = written_name(value) if isinstance(value, str) and value.startswith(("./", "../", "/")) else None
    if name is None:
        return value
    code = read_code(folder / name.path, name.path)
    declared_function(code, name.function)
    library.keep([code])
    return code.name(name.function)
