"""The files of users' packages, in the store: put there where a recipe is read, before anything runs elsewhere."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError
from components.contract.operator_files.library import UserCode
from components.contract.operator_packages import contents
from components.contract.operator_packages.code import CodeTree, PackageCode
from components.runtime.ledger.operator_code import ROOT, keep_code

if TYPE_CHECKING:
    from components.runtime.store import Store


def publish_code(store: Store, codes: Iterable[UserCode]) -> None:
    """Put packages into the store, each tree once and before the record that names it.

    Raises InputError for a tree that neither this process nor the store has.
    """
    packages = [code for code in codes if isinstance(code, PackageCode)]
    for tree in {tree.digest: tree for code in packages for tree in code.trees}.values():
        publish_tree(store, tree)
    keep_code(store, packages)


def publish_tree(store: Store, tree: CodeTree) -> None:
    """Put one tree into the store, unless it is there; it is touched, which delays its collection."""
    if store.use(tree.digest):
        return
    files = contents.kept(tree.digest)
    if files is None:
        raise InputError(f"code {tree.name} ({tree.digest[:12]}) is not in {store.uri}: start the run where it lies")
    with tempfile.TemporaryDirectory(prefix="posttrain-code-") as scratch:
        folder = Path(scratch) / "tree"
        for path, data in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        store.commit(ArtifactType.CODE, folder)


def trees_in_use(store: Store) -> set[str]:
    """Return the digests of the trees that any record of the store names."""
    records = (store.recover(key) for key in store.keys(f"{ROOT}/"))
    return {tree["digest"] for record in records if record for tree in record.get("trees", ())}
