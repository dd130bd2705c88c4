"""A recipe that travels inside its pipeline: files, overrides and pools, so that the first task can plan every run.

The image of that task holds only its own version's shipped recipes; a user's recipe is nowhere else. The text is
plain JSON, so that the pipeline shows what it runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from components.contract.errors import InputError
from components.contract.operator_files.code import OperatorCode
from components.contract.operator_packages.code import CodeTree
from components.contract.uploaded import Upload
from pipelines.language.find import VARIABLE, is_name, recipe_name
from pipelines.recipe.carried import Carried, sender_folders
from pipelines.recipe.endpoints import load_endpoints
from pipelines.recipe.pools import ENDPOINTS, load_pools
from pipelines.recipe.recipe import Recipe, load_recipe

MAX_BYTES = 100_000
"""Linux allows arguments of 128 KiB; escapes and the rest of the argument need some of it."""
POOLS_FILE = "pools.json"


@dataclass(frozen=True)
class Bundle:
    """Everything that a recipe is read from."""

    name: str
    """What people call it: the name by which `posttrain run` finds it, or its file's, the same wherever that lies."""
    file: str
    """The recipe's own file among `files`."""
    files: dict[str, str]
    """Path below a folder -> text: the recipe, and the parents that it extends."""
    overrides: list[str]
    """As given to `posttrain compile`."""
    pools: dict[str, dict[str, Any]]
    """The pools that its stages use, and the section with the endpoints that they name."""
    code: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Path as the recipe writes it -> the operator's file behind it."""
    trees: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Entry of the recipe's `code` -> the digest of its files, which lie in the store."""
    uploads: list[dict[str, Any]] = field(default_factory=list)
    """Local data of the sender, which lies in the store."""
    folders: list[str] = field(default_factory=list)
    """Folders of the recipe's files at the sender, and its working folder; empty without uploads."""

    @classmethod
    def of(cls, recipe: Recipe) -> Bundle:
        """Return the bundle of a recipe; raise InputError if it is too large to travel."""
        name = recipe_name(recipe.path)
        paths = _paths(recipe, name)
        used = sorted({stage.pool for stage in recipe.stages})
        pools = {pool: recipe.pools[pool].model_dump(mode="json", exclude_defaults=True) for pool in used}
        named = {name: one.model_dump(mode="json", exclude_defaults=True) for name, one in recipe.endpoints.items()}
        bundle = cls(
            name=name or recipe.path.name,
            file=paths[0],
            files={path: document.text for path, document in zip(paths, recipe.documents, strict=True)},
            overrides=list(recipe.overrides),
            pools=pools | ({ENDPOINTS: named} if named else {}),
            code=_code(recipe),
            trees={written: tree.model_dump(mode="json") for written, tree in recipe.trees.items()},
            uploads=[one.model_dump(mode="json") for one in recipe.uploads],
            folders=sender_folders(recipe.documents) if recipe.uploads else [],
        )
        if len(bundle.dump()) > MAX_BYTES:
            what = "a recipe, its parents and its operators' files" if bundle.code else "a recipe and its parents"
            raise InputError(f"{bundle.name}: {what} may have {MAX_BYTES} bytes on Kubeflow")
        return bundle

    @classmethod
    def parse(cls, text: str) -> Bundle:
        """Return what `dump` wrote."""
        return cls(**json.loads(text))

    def dump(self) -> str:
        """Return JSON in which nothing looks like a placeholder of Kubeflow, Argo or Kubernetes."""
        plain = asdict(self)
        for name in ("code", "trees", "uploads", "folders"):  # pipelines without what users send keep their text
            if not plain[name]:
                del plain[name]
        text = json.dumps(plain, ensure_ascii=True)
        return text.replace("$", "\\u0024").replace("{{", "\\u007b\\u007b")

    def unpack(self, folder: Path) -> None:
        """Write the files, and make this process look up parents by name there first."""
        for path, text in self.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        (folder / POOLS_FILE).write_text(json.dumps(self.pools))
        os.environ[VARIABLE] = str(folder)

    def load(self, folder: Path, overrides: Sequence[str] = (), *, whole: bool = False) -> Recipe:
        """Return the recipe that was unpacked into `folder`, with more overrides on top of its own."""
        pools, endpoints = load_pools(folder / POOLS_FILE), load_endpoints(folder / POOLS_FILE)
        overrides = [*self.overrides, *overrides]
        code = {path: OperatorCode.model_validate(plain) for path, plain in self.code.items()}
        trees = {written: CodeTree.model_validate(plain) for written, plain in self.trees.items()}
        uploads = [Upload.model_validate(plain) for plain in self.uploads]
        carried = Carried(code, trees, uploads, self.folders[:-1], self.folders[-1] if self.folders else "")
        return load_recipe(
            str(folder / self.file), overrides, pools=pools, endpoints=endpoints, carried=carried, whole=whole
        )


def _code(recipe: Recipe) -> dict[str, dict[str, Any]]:
    files = recipe.files
    if files is None:
        return {}
    if files.ambiguous:
        raise InputError(
            f"{recipe.name}: {', '.join(sorted(files.ambiguous))} means one file in the recipe and another in a "
            "parent; give them different names"
        )
    return {path: code.model_dump(mode="json") for path, code in sorted(files.named.items())}


def _paths(recipe: Recipe, name: str | None) -> list[str]:
    """Return where recipe and parents lie in the bundle, such that each finds the next as it did."""
    found = [f"{name or recipe.path.stem}.yaml"]
    for child, document in zip(recipe.documents, recipe.documents[1:], strict=False):
        extends = child.root.child("extends")
        assert extends is not None and document is not child
        reference = str(extends.value)
        if all(map(is_name, reference.split("/"))):
            found.append(f"{reference}.yaml")
        else:
            found.append(str(PurePosixPath(found[-1]).parent / reference))
    if len(set(found)) != len(found):
        raise InputError(f"{recipe.name}: recipe and parents have the same file names: {', '.join(found)}")
    return found
