"""Users' packages in the store: put there once, kept while a record of theirs is there, collected after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.contract.operator_packages.code import CodeTree, PackageCode
from components.contract.operator_packages.folder import read_folder
from components.runtime.ledger.code_trees import publish_code
from components.runtime.ledger.operator_code import stored_code
from components.runtime.store import Store
from components.runtime.upkeep.selection import Rules
from tests.runtime.upkeep.conftest import OLD
from tests.runtime.upkeep.test_gc import collect
from tests.runtime.upkeep.test_gc_operator_files import record

ALL = Rules(grace_seconds=OLD)


def package(folder: Path, text: str) -> PackageCode:
    """Return a package whose one module holds a text."""
    place = folder / text / "mine"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(f"SAID = {text!r}\n")
    return PackageCode(trees=(read_folder(place, "./mine"),))


def test_a_package_stays_while_a_run_names_it_and_goes_after_its_record(store: Store, tmp_path: Path) -> None:
    used, unused = package(tmp_path, "used"), package(tmp_path, "unused")
    publish_code(store, [used, unused, used])
    assert stored_code(store, used.digest) == used
    record(store, "a-1", params=[used.name("mine", "f")])
    collect(store, ALL)
    assert stored_code(store, unused.digest) is None and store.has(unused.trees[0].digest)
    collect(store, ALL)  # its files go with the next collection
    assert not store.has(unused.trees[0].digest)
    assert stored_code(store, used.digest) == used
    assert (store.fetch(used.trees[0].digest) / "mine" / "__init__.py").read_text() == "SAID = 'used'\n"


def test_what_lies_nowhere_cannot_be_put_into_the_store(store: Store) -> None:
    tree = CodeTree(name="gone", digest="0" * 64, modules=("gone",))
    with pytest.raises(InputError, match=r"code gone \(000000000000\) is not in .*: start the run where it lies"):
        publish_code(store, [PackageCode(trees=(tree,))])
