"""The part of the file system that a sandbox sees: Python, its libraries and this package's code; nothing else."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import components

SYSTEM = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/etc/ld.so.cache")
TOOLS = ("/usr/bin", "/usr/include", "/usr/libexec", "/usr/share/nodejs", "/etc/alternatives")
LINKED = ("/lib", "/lib32", "/lib64")
"""Links into /usr on merged systems, folders of their own on others."""
SITE_FOLDERS = ("site-packages", "dist-packages")


def interpreter() -> str:
    """Return the interpreter itself, behind the links of virtual environments."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def search_path(modules: Iterable[str]) -> list[str]:
    """Return what the sandbox's interpreter has to search beside its standard library."""
    roots = [str(Path(path).parent) for path in package_paths(["components", *modules])]
    return list(dict.fromkeys([*roots, *_site_folders()]))


def package_paths(modules: Iterable[str]) -> list[str]:
    """Return the folders or files of the modules' top packages that are outside the site folders."""
    found = []
    for name in dict.fromkeys(module.partition(".")[0] for module in modules):
        if name == "components":
            found += [str(Path(folder).resolve()) for folder in components.__path__]
            continue
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue  # the server says so by name when it imports it
        places = list(spec.submodule_search_locations or []) or [spec.origin or ""]
        found += [path for path in places if os.path.isabs(path) and not _is_standard(path)]
    return [path for path in dict.fromkeys(found) if not _below(path, _site_folders())]


def visible_paths(modules: Iterable[str], tools: Iterable[str] = ()) -> list[str]:
    """Return the paths that a sandbox may read, none below another; the tools are installed."""
    prefix = Path(sys.base_prefix)
    library = prefix / "lib"
    wanted = [*SYSTEM, str(library), interpreter(), *_site_folders(), *package_paths(modules)]
    if str(prefix) == "/usr":
        wanted.remove(str(library))
    for tool in tools:
        where = shutil.which(tool) or tool
        real = os.path.realpath(where)
        wanted += TOOLS if real.startswith("/usr/bin/") else [real, where, str(Path(real).parent.parent / "lib")]
    wanted += [path for path in LINKED if os.path.isdir(path) and not os.path.islink(path)]
    there = sorted({os.path.normpath(path) for path in wanted if os.path.exists(path)})
    return [path for path in there if not _below(path, [other for other in there if other != path])]


def links() -> list[tuple[str, str]]:
    """Return (target, link) of the system's links into /usr."""
    return [(os.readlink(path), path) for path in (*LINKED, "/bin") if os.path.islink(path)]


def _site_folders() -> list[str]:
    return [path for path in sys.path if os.path.basename(path) in SITE_FOLDERS and os.path.isdir(path)]


def _is_standard(path: str) -> bool:
    standard = os.path.dirname(os.path.realpath(os.__file__))
    return _below(os.path.realpath(path), [standard]) and not _below(path, _site_folders())


def _below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
