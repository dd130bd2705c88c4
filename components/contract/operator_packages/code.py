"""Code of a user that travels as whole trees of files: what a recipe's `code` names, by digest."""

from __future__ import annotations

from functools import cached_property

from pydantic import BaseModel, ConfigDict, Field

from components.contract.artifacts import hash_parts
from components.contract.errors import InputError
from components.contract.operator_packages import contents

SUFFIX = ".py"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class CodeTree(_Frozen):
    """One package folder, project, wheel or installed distribution. Its content is an artifact of type Code."""

    name: str = Field(min_length=1, max_length=200)
    """What people call it: the folder's name, the wheel's file name, or the distribution's name."""
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Digest of the artifact with its files."""
    modules: tuple[str, ...] = Field(min_length=1)
    """The modules at its top, sorted."""
    distribution: str = ""
    """Name of the distribution that it is, if it is one."""
    path: str = ""
    """Where its files lay when the recipe was read, as messages show it; no part of any digest."""


class PackageCode(_Frozen):
    """A tree with operators, and the trees that it imports. Stages get all of them on their import path."""

    trees: tuple[CodeTree, ...] = Field(min_length=1)
    """The tree with the operators first."""

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the content of all trees."""
        return hash_parts("operator packages", *(tree.digest for tree in self.trees))

    def name(self, module: str, function: str) -> str:
        """Return the name under which a function of a module travels, as operator_files.names reads it."""
        return f"{module}:{function}@{self.digest}"

    def module(self, name: str) -> ModuleCode | None:
        """Return the source of a module of its trees, by dotted name; None if no tree has it as a .py file."""
        steps = name.split(".")
        for tree in self.trees:
            if steps[0] not in tree.modules:
                continue
            files = contents.of(tree.digest)
            for path in ("/".join(steps) + SUFFIX, "/".join([*steps, f"__init__{SUFFIX}"])):
                if path in files:
                    return ModuleCode(self, tree, name, path, files[path].decode("utf-8-sig", "replace"))
        return None

    def needed_module(self, name: str) -> ModuleCode:
        """Return the source of a module; raise InputError if no tree has it."""
        found = self.module(name)
        if found is None:
            raise InputError(f"{self.trees[0].name} has no module {name!r} (as a .py file)")
        return found


class ModuleCode:
    """A module of a package, read as an operator's file is: by its text, without running it."""

    def __init__(self, package: PackageCode, tree: CodeTree, module: str, path: str, text: str) -> None:
        self.package, self.tree, self.file, self._path = package, tree, module, path
        self.files = {module: text.replace("\r\n", "\n")}

    @property
    def digest(self) -> str:
        """Return the digest of the package's content."""
        return self.package.digest

    @property
    def parent(self) -> str:
        """Return the package that relative imports of the module begin in."""
        return self.file if self._path.endswith("__init__.py") else self.file.rpartition(".")[0]

    def name(self, function: str) -> str:
        """Return the name under which a function of the module travels."""
        return self.package.name(self.file, function)

    def shown(self, file: str | None = None) -> str:
        """Return where the module lay, as messages show it; `file` is ignored: it is this module."""
        return f"{self.tree.path}/{self._path}" if self.tree.path else self._path
