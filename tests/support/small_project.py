"""A small project that can be installed: what a third party writes to bring one operator."""

from __future__ import annotations

from pathlib import Path

TEXT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "{name}"
version = "{version}"
[project.entry-points."posttrain.operators"]
"{operator}" = "{target}"
[tool.setuptools]
{layout}
"""


def write_pyproject(folder: Path, name: str, operator: str, target: str, layout: str, *, version: str = "1.0") -> None:
    """Write the pyproject.toml of a project that registers `target` as `operator`, "<slot>.<name>".

    `layout` is what stands in [tool.setuptools].
    """
    text = TEXT.format(name=name, version=version, operator=operator, target=target, layout=layout)
    (folder / "pyproject.toml").write_text(text)
