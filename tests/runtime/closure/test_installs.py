"""However a third-party operator is installed, its source is found, and an edit of it is another fingerprint."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.closure.packages import WAYS, Installed

KINDS = [
    *product(("single files", "namespace package", "package in src"), WAYS),
    ("package", "regular"),
    ("package under another name", "editable"),
]


@pytest.mark.parametrize("kind", KINDS, ids=", ".join)
def test_an_edited_formula_changes_the_fingerprint_and_words_do_not(tmp_path: Path, kind: tuple[str, str]) -> None:
    installed = Installed(tmp_path, *kind)
    before, reworded, other_formula, other_helper = installed.parts(
        (installed.reward, "Added.", "What is added."),
        (installed.reward, "+ config.bonus", "- config.bonus"),
        (installed.helper, "2 * value", "3 * value"),
    )
    reward, helper = (f"{module.replace('.', '/')}.py" for module in installed.modules)
    assert {reward, helper} <= before["code"].keys()
    assert not [path for path in before["code"] if path.startswith("/") or str(tmp_path) in path]
    assert reworded == before
    assert differing(before, other_formula) == {reward}
    assert differing(other_formula, other_helper) == {helper}


def differing(before: dict[str, Any], now: dict[str, Any]) -> set[str]:
    assert {**before, "code": None} == {**now, "code": None}
    return {path for path in {*before["code"], *now["code"]} if before["code"].get(path) != now["code"].get(path)}


def test_kinds_of_installation_give_one_fingerprint(tmp_path: Path) -> None:
    kinds = [("package", "regular"), ("package in src", "editable"), ("package under another name", "editable, strict")]
    (first,), *others = (Installed(tmp_path / str(n), *kind).parts() for n, kind in enumerate(kinds))
    assert all(other == first for (other,) in others)
