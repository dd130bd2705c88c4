"""Analysis of one module's source: a hash of its code, what it may import, and the packages that it declares."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.contract.artifacts import hash_file
from components.contract.errors import InputError
from components.contract.python_text import parse_module
from components.runtime.closure import loaded
from components.runtime.closure.analyses import Analyses, key_of

DECLARATION = "VERSIONED_PACKAGES"
"""A module's constant: a tuple of names of installed packages whose version is part of its fingerprint."""
_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+(:[A-Za-z_]\w*)?")
"""A string that may name a module, alone or as "module:object"."""
_IMPORTERS = {"import_module", "__import__", "find_spec", "run_module", "load_target"}


@dataclass(frozen=True)
class Source:
    """Result of analysing a module's source."""

    digest: str
    """SHA-256 of the syntax tree without comments, docstrings, layout and code only for type checkers."""
    names: tuple[str, ...]
    """Modules that it may import, absolute: for `from a import b` both a and a.b."""
    named: tuple[str, ...]
    """Modules that its string constants may name, in the form a.b or a.b:c."""
    dynamic: bool
    """Whether it imports a module whose name is known only at run time."""
    strings: tuple[str, ...]
    """Its string constants if it reads files beside it, else empty."""
    packages: tuple[str, ...]
    """Installed packages listed in its constant VERSIONED_PACKAGES."""


_Stamp = tuple[int, int]
_ANALYSES = Analyses(Path(__file__).read_bytes())
_read: dict[tuple[Path, str, str], tuple[_Stamp, Source]] = {}
_hashed: dict[Path, tuple[_Stamp, str]] = {}


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a data file; it is read again when its time or size changes."""
    stamp = _stamp(path)
    known = _hashed.get(path)
    if known is None or known[0] != stamp:
        known = _hashed[path] = stamp, hash_file(path)
    return known[1]


def read_source(path: Path, module: str, is_package: bool, fields_of: str = "") -> Source:
    """Return the analysis of a file as `module`; it is read again when its time or size changes.

    For a file that a fork server loaded for this process, its content at load time is used.
    The fields of the class `fields_of` do not count: their values are in the fingerprint.
    """
    stamp, key = _stamp(path), (path, module, fields_of)
    known = _read.get(key)
    if known is None or known[0] != stamp:
        text = loaded.TEXTS.get(path)
        text = _read_bytes(path) if text is None else text
        known = _read[key] = stamp, _analysis(text, module, is_package, str(path), fields_of)
    return known[1]


def keep_analyses() -> None:
    """Write what this process analysed for later ones: a process that is forked or killed does not at its end."""
    _ANALYSES.save()


def _analysis(text: bytes, module: str, is_package: bool, where: str, fields_of: str) -> Source:
    """Return the analysis of a text, an earlier process's if there is one."""
    key = key_of(text, module, is_package, fields_of)
    kept = _ANALYSES.get(key)
    if kept is not None:
        return Source(**{name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()})
    found = parse_source(text, module, is_package, where, fields_of)
    _ANALYSES.put(key, asdict(found))
    return found


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: not readable: {error.strerror}") from error


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"{path}: not readable: {error.strerror}") from error
    return status.st_mtime_ns, status.st_size


def parse_source(text: bytes, module: str, is_package: bool, where: str, fields_of: str = "") -> Source:
    """Return the analysis of source text as `module`; raise InputError with `where` if it is not Python."""
    try:
        tree = parse_module(text, where)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise InputError(f"{where}: not readable as Python: {error}") from error
    package = module if is_package else module.rpartition(".")[0]
    reader = _Reader(package, fields_of, documented=b"__doc__" in text)  # docstrings that the code reads are data
    reader.visit(tree)
    digest = hashlib.sha256("\0".join(reader.shape).encode("utf-8", "surrogatepass")).hexdigest()
    return Source(
        digest=digest,
        names=tuple(dict.fromkeys(reader.names)),
        named=tuple(dict.fromkeys(reader.named)),
        dynamic=reader.dynamic,
        strings=tuple(dict.fromkeys(reader.strings)) if reader.reads_files else (),
        packages=tuple(_declared(tree, where)),
    )


class _Reader:
    """Visits a syntax tree once, in order; code that never runs is left out."""

    def __init__(self, package: str, fields_of: str, *, documented: bool) -> None:
        self._package, self._fields_of, self._documented = package, fields_of, documented
        self.shape: list[str] = []
        self.names: list[str] = []
        self.named: list[str] = []
        self.strings: list[str] = []
        self.dynamic = self.reads_files = False

    def visit(self, node: ast.AST) -> None:
        """Record a node and everything below; the result is the same in every Python version that parses it."""
        kind = type(node).__name__
        self.shape.append(kind)
        match node:
            case ast.Constant():
                self._constant(node.value)
                return
            case ast.Import():
                self.names += [alias.name for alias in node.names]
            case ast.ImportFrom():
                base = _absolute(node, self._package)
                self.names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
            case ast.Call():
                self._call(node)
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in ("__file__", "resources", "get_data"):
                self.reads_files = True
        for field in node._fields:
            value = getattr(node, field, None)
            if value is None or field in ("ctx", "type_comment", "kind"):
                continue
            if isinstance(value, list):
                self._list(node, field, value)
                continue
            self.shape.append(field)
            if isinstance(value, ast.AST):
                self.visit(value)
            else:
                self.shape.append(repr(value))
        self.shape.append(")")

    def _list(self, owner: ast.AST, field: str, values: list[Any]) -> None:
        bare = isinstance(owner, ast.ClassDef) and owner.name == self._fields_of
        start = len(self.shape)
        for value in values:
            if not isinstance(value, ast.AST):
                self.shape.append(repr(value))
            elif isinstance(value, ast.Expr) and isinstance(value.value, ast.Constant) and not self._documented:
                continue  # a docstring, or a constant that does nothing
            elif isinstance(value, ast.If) and _for_type_checkers(value.test):
                self._list(value, field, value.orelse)
            elif not (bare and isinstance(value, ast.AnnAssign) and _is_plain_field(value)):
                self.visit(value)
        if len(self.shape) > start:
            self.shape.insert(start, field)

    def _constant(self, value: object) -> None:
        self.shape.append(repr(value))
        if isinstance(value, str):
            self.strings.append(value)
            if len(value) < 200 and _TARGET.fullmatch(value):
                module = value.partition(":")[0]
                self.named += [module, module.rpartition(".")[0]]

    def _call(self, node: ast.Call) -> None:
        called = node.func
        name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
        if name not in _IMPORTERS:
            return
        given = node.args[0] if node.args else None
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            self.names.append(_relative(given.value, self._package))
        else:
            self.dynamic = True


def _is_plain_field(node: ast.AnnAssign) -> bool:
    """Return whether a model's dump includes this field: it omits class variables and excluded fields."""
    return "ClassVar" not in ast.unparse(node.annotation) and "exclude" not in ast.unparse(node)


def _for_type_checkers(test: ast.expr) -> bool:
    name = test.id if isinstance(test, ast.Name) else test.attr if isinstance(test, ast.Attribute) else ""
    return name == "TYPE_CHECKING"


def _absolute(node: ast.ImportFrom, package: str) -> str:
    return _relative("." * node.level + (node.module or ""), package)


def _relative(name: str, package: str) -> str:
    bare = name.lstrip(".")
    if not (level := len(name) - len(bare)):
        return name
    parents = package.split(".")[: len(package.split(".")) - level + 1]
    return ".".join([*parents, *([bare] if bare else [])])


def _declared(tree: ast.Module, where: str) -> Iterator[str]:
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if not any(isinstance(target, ast.Name) and target.id == DECLARATION for target in targets):
            continue
        value = node.value
        items = value.elts if isinstance(value, ast.Tuple | ast.List) else [None]
        for item in items:
            if not (isinstance(item, ast.Constant) and isinstance(item.value, str)):
                raise InputError(
                    f"{where}:{node.lineno}: {DECLARATION} must be a tuple of names of packages, as literals"
                )
            yield item.value
