"""A package folder, a project's folder, or an installed distribution as a code tree. Nothing of it is executed."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from components.contract.errors import InputError
from components.contract.operator_packages import contents
from components.contract.operator_packages.code import CodeTree
from components.contract.operator_packages.rules import check_file, check_together, check_whole, is_left_out
from components.contract.small_files import read_small_file
from components.contract.terminal import visible_line

PROJECT = "pyproject.toml"
INIT = "__init__.py"
NO_PACKAGES = ("tests", "test", "docs", "examples", "build", "dist")
"""Folders of a project that are no part of what it installs."""


def read_folder(folder: Path, shown: str) -> CodeTree:
    """Return the tree of a package folder (with __init__.py) or of a project's packages (with pyproject.toml).

    Raises InputError, in one line, for what cannot travel.
    """
    if folder.is_symlink():
        raise InputError(f"{shown}: a link; name the folder that it leads to")
    if (folder / INIT).is_file():
        packages, name, distribution_name = [folder], folder.name, ""
        root, said = folder.parent, str(Path(shown).parent)
    elif (folder / PROJECT).is_file():
        root = folder / "src" if (folder / "src").is_dir() else folder
        said = f"{shown}/src" if root != folder else shown
        packages = [one for one in sorted(root.iterdir()) if one.name not in NO_PACKAGES and (one / INIT).is_file()]
        name = distribution_name = _project_name(folder / PROJECT, shown) or folder.name
    else:
        raise InputError(f"{shown}: neither a package (a folder with {INIT}) nor a project (with {PROJECT})")
    if not packages:
        raise InputError(f"{shown}: a project without a package: no folder with {INIT} in it or in its src")
    for package in packages:
        if not package.name.isidentifier():
            raise InputError(f"{shown}: {visible_line(package.name)!r} is no name of a Python package")
    found = [path for package in packages for path in _files(package, shown)]
    modules = tuple(package.name for package in packages)
    return _tree(root, found, name, modules, shown=shown, distribution_name=distribution_name, path=said)


def read_installed(name: str, shown: str) -> CodeTree:
    """Return the tree of a distribution that is installed here; raise InputError for one that is not, or is native."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        raise InputError(
            f"{shown}: no package of this name is installed here; a folder is named as ./{name}, a wheel by its file"
        ) from None
    listed = [Path(str(one)) for one in found.files or ()]
    own = [one for one in listed if ".." not in one.parts and not any(is_left_out(step) for step in one.parts)]
    tops = sorted({one.parts[0].removesuffix(".py") for one in own if one.suffix == ".py"})
    modules = tuple(top for top in tops if top.isidentifier())
    root = Path(str(found.locate_file("")))
    if not modules:
        raise InputError(f"{shown}: installed as a link to its folder (editable); name that folder instead")
    paths = [root / one for one in own if not one.is_absolute() and (root / one).exists()]
    return _tree(root, paths, name, modules, shown=shown, distribution_name=name, path=str(root))


def _tree(
    root: Path, paths: list[Path], name: str, modules: tuple[str, ...], *, shown: str, distribution_name: str, path: str
) -> CodeTree:
    sizes = {one: _size(one, shown) for one in paths}
    check_whole(sizes.values(), shown)
    files: dict[str, bytes] = {}
    for one, size in sizes.items():
        relative = one.relative_to(root).as_posix()
        check_file(relative, size, shown)
        files[relative] = _read(one, size, shown)
    check_together(files, shown)
    digest = contents.keep(files)
    return CodeTree(name=name, digest=digest, modules=modules, distribution=distribution_name, path=path)


def _files(package: Path, shown: str) -> Iterator[Path]:
    """Yield the files of a package, at any depth, that travel."""

    def stop(error: OSError) -> None:
        raise InputError(f"{shown}: {visible_line(str(error.filename))}: {error.strerror}") from None

    for folder, folders, names in os.walk(package, onerror=stop):
        folders[:] = sorted(one for one in folders if not is_left_out(one))
        for one in (*folders, *sorted(name for name in names if not is_left_out(name))):
            path = Path(folder) / one
            if path.is_symlink():
                raise InputError(
                    f"{shown}: {visible_line(str(path.relative_to(package)))} is a link; links do not travel"
                )
            if one not in folders:
                yield path


def _size(path: Path, shown: str) -> int:
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"{shown}: {visible_line(path.name)}: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{shown}: {visible_line(path.name)} is a device or a pipe")
    return status.st_size


def _read(path: Path, size: int, shown: str) -> bytes:
    try:
        data = read_small_file(path, size)
    except ValueError as error:
        raise InputError(f"{shown}: {visible_line(path.name)} cannot be read: {error}") from None
    if len(data) != size:
        raise InputError(f"{shown}: {visible_line(path.name)} changed while it was read; run again")
    return data


def _project_name(path: Path, shown: str) -> str:
    try:
        project = tomllib.loads(read_small_file(path, 1 << 20).decode()).get("project", {})
    except ValueError as error:  # TOML and UTF-8 errors are ValueErrors
        raise InputError(f"{shown}/{PROJECT}: {' '.join(str(error).split())}") from None
    name = project.get("name", "") if isinstance(project, dict) else ""
    return name if isinstance(name, str) else ""
