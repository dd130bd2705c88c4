"""Fingerprint of a job: what must be equal for an earlier result to be this job's result.

It covers the component's name, its parameters after resolution, the digests of its inputs, the seed, backends other
than the defaults, and the source of the modules that do the work. The contract and the runtime are walls, not work:
they are left out, and EPOCH is raised by hand on the rare change of theirs that alters what stages write.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from components.contract.artifacts import canonical_json
from components.contract.component import Component, Params
from components.contract.job import Resources

EPOCH = 1
WALLS = ("components.contract", "components.runtime", "components.catalog")


@dataclass(frozen=True)
class Fingerprint:
    """A digest and the parts that went into it, kept so that a cache miss can be explained."""

    digest: str
    parts: dict[str, Any]


def fingerprint(
    component: Component,
    params: Params,
    inputs: Mapping[str, Iterable[str]],
    seed: int,
    resources: Resources | None = None,
) -> Fingerprint:
    """Return the fingerprint of a component run on input digests per port; digests keep their order in a port.

    Of `resources` only the backends count, and only those that the component uses.
    """
    chosen = resources.backend_parts(component.backends) if resources else {}
    parts = {
        "epoch": EPOCH,
        "component": component.name,
        "params": params.model_dump(mode="json"),
        "inputs": {port: list(digests) for port, digests in sorted(inputs.items())},
        "seed": seed,
        "code": source_digests(component, params),
        **({"backends": chosen} if chosen else {}),
    }
    return Fingerprint(hashlib.sha256(canonical_json(parts)).hexdigest(), parts)


def source_digests(component: Component, params: Params) -> dict[str, str]:
    """Return path -> SHA-256 of every in-tree source file that the component's run depends on."""
    roots: list[str | Path] = [component.params.__module__, component.run.partition(":")[0]]
    roots += list(component.sources(params)) if component.sources else []
    files: dict[str, str] = {}
    for root in roots:
        if isinstance(root, Path):
            digest = _hash(root)
            files[f"{root.name} ({digest[:12]})"] = digest  # by content: equal names must not hide each other
        else:
            files.update(_closure(root))
    return dict(sorted(files.items()))


@cache
def _closure(root: str) -> dict[str, str]:
    """Hash `root` and all modules of its own top-level package that it imports, directly or not."""
    package = root.partition(".")[0]
    files: dict[str, str] = {}
    seen: set[str] = set()
    queue = [root]
    while queue:
        module = queue.pop()
        if module in seen or module.startswith(WALLS):
            continue
        seen.add(module)
        path = _module_path(module)
        if path is None:
            continue
        files[_label(path)] = _hash(path)
        queue += [name for name in _imports(path, module) if name.partition(".")[0] == package]
    return files


@cache
def _package_root(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent.parent if spec and spec.origin else None


def _module_path(module: str) -> Path | None:
    root = _package_root(module.partition(".")[0])
    if root is None:
        return None
    base = root.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def _label(path: Path) -> str:
    for parent in path.parents:
        if not (parent / "__init__.py").exists():
            return path.relative_to(parent).as_posix()
    return path.name


@cache
def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


@cache
def _imports(path: Path, module: str) -> tuple[str, ...]:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: list[str] = []
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            # `from a.b import c` may name a module c or an attribute of a.b: both are looked for
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return tuple(names)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parent = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*parent, *([node.module] if node.module else [])])


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk the tree but leave out `if TYPE_CHECKING:` bodies: they never run."""
    queue: list[ast.AST] = [tree]
    while queue:
        node = queue.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            queue += node.orelse
            continue
        yield node
        queue += list(ast.iter_child_nodes(node))
