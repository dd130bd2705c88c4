"""Which distribution a top-level module belongs to, compared with the standard library's slower answer."""

from __future__ import annotations

import importlib.metadata
from importlib.metadata import MetadataPathFinder, packages_distributions
from pathlib import Path

import pytest

from components.runtime.closure import locate


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that is searched first, by the standard library's own finder."""
    # The backport of importlib.metadata, once a library has imported it, takes that finder's place for the process
    # and leaves out files that are listed but absent.
    monkeypatch.setattr(importlib.metadata, "distributions", MetadataPathFinder.find_distributions)
    locate._tops_to_packages.cache_clear()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    locate._tops_to_packages.cache_clear()


def installed(site: Path, name: str, **files: str) -> None:
    """Write what an installer notes about a distribution."""
    folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    for file, text in files.items():
        (folder / file.replace("_txt", ".txt")).write_text(text)
    MetadataPathFinder().invalidate_caches()  # a folder that was listed within the same tick is not listed again


def test_every_module_has_the_owners_that_the_standard_library_names(site: Path) -> None:
    listed = [
        'own_a/__init__.py,sha256=x,1', '"own_b/with, comma.py",,', "own_c.py,,", "own_d/data.json,,", "own.e/f.py,,",
        "own_g/deep/er.py,,", "../../../bin/own_h.py,,", "own_a-1.0.dist-info/RECORD,,", "own_i.pyc,,", "own_j/k.pyi,,",
    ]  # fmt: skip
    installed(site, "Own-Things", RECORD="\n".join(listed) + "\n")
    installed(site, "also-own", RECORD="own_a/more.py,,\n")
    installed(site, "declares", top_level_txt="own_l\nown_m\n", RECORD="own_n/__init__.py,,\n")
    expected = {top: set(owners) for top, owners in packages_distributions().items()}
    assert {"own_a", "own_b", "own_c", "own.e", "own_g", "own_l", "own_m"} <= expected.keys()
    found = {top: set(locate.packages_of(top)) for top in locate._tops_to_packages()}
    assert found == expected and found["own_a"] == {"Own-Things", "also-own"}
    assert len(expected) > 50 and locate.packages_of("own_d") == locate.packages_of("own_n") == ()
