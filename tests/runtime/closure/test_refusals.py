"""Code whose source cannot be read is refused by name and reason: never an empty closure."""

from __future__ import annotations

import importlib
import os
import py_compile
import subprocess
import sys
import types
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.runtime.closure import locate
from components.runtime.closure.walk import Closures, Code

ROOT = Path(__file__).parents[3]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    locate._tops_to_packages.cache_clear()


def closure(root: str) -> Code:
    return Closures().of(root, "reward operator 'own'")


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def without_source(folder: Path, name: str) -> None:
    source = write(folder, f"{name}.py", "VALUE = 1\n")
    py_compile.compile(str(source), cfile=str(folder / f"{name}.pyc"))
    source.unlink()


def extension(folder: Path, name: str) -> None:
    (folder / f"{name}{EXTENSION_SUFFIXES[0]}").write_bytes(b"\x7fELF")


def zipped(folder: Path, *, source: bool) -> None:
    path = write(folder / "in", "own_operator.py", "VALUE = 1\n")
    py_compile.compile(str(path), cfile=str(path.with_suffix(".pyc")))
    with zipfile.ZipFile(folder / "own.zip", "w") as archive:
        archive.write(path if source else path.with_suffix(".pyc"), "own_operator" + (".py" if source else ".pyc"))
    sys.path.insert(0, str(folder / "own.zip"))


@pytest.mark.parametrize(
    "make", [without_source, extension, zipped], ids=["bytecode", "C extension", "zip of bytecode"]
)
def test_an_operator_without_source_is_refused(site: Path, monkeypatch: pytest.MonkeyPatch, make: object) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    if make is zipped:
        zipped(site, source=False)
    else:
        make(site, "own_operator")
    refusal = r"^reward operator 'own': no Python source of 'own_operator' \(.+\): a change of it would go unseen"
    with pytest.raises(InputError, match=refusal) as caught:
        closure("own_operator")
    assert "\n" not in str(caught.value) and "install it with its .py files" in str(caught.value)


def test_an_operator_that_was_made_by_exec_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = types.ModuleType("own_made")
    exec("def own(): pass", made.__dict__)
    monkeypatch.setitem(sys.modules, "own_made", made)
    with pytest.raises(InputError, match="'own_made' \\(no import finds it\\)"):
        closure("own_made")


def test_a_folder_without_code_is_refused(site: Path) -> None:
    (site / "own_folder").mkdir()
    with pytest.raises(InputError, match="'own_folder' \\(it is a folder without code"):
        closure("own_folder")


def test_source_in_a_zip_archive_is_read(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    zipped(site, source=True)
    assert closure("own_operator").files.keys() == {"own_operator.py"}


@pytest.mark.parametrize("make", [without_source, extension], ids=["bytecode", "C extension"])
def test_what_an_operator_imports_is_refused_unless_its_package_is_declared(site: Path, make: object) -> None:
    text = "import own_kernel\n"
    write(site, "own_operator.py", text)
    make(site, "own_kernel")
    write(site, "own_reward-1.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: own-reward\nVersion: 1.5\n")
    write(site, "own_reward-1.5.dist-info/top_level.txt", "own_operator\nown_kernel\n")
    locate._tops_to_packages.cache_clear()
    with pytest.raises(InputError, match="'own_kernel'"):
        closure("own_operator")
    write(site, "own_operator.py", f'{text}VERSIONED_PACKAGES = ("own-reward",)\n')
    assert closure("own_operator").packages == {"own-reward": "1.5"}


def test_a_library_that_is_installed_is_not_followed_and_a_loose_file_is(site: Path) -> None:
    write(site, "own_operator.py", "import own_library, own_loose, json, torch, numpy, pipelines\n")
    write(site, "own_library/__init__.py", "")
    extension(site / "own_library", "kernel")
    write(site, "own_library-2.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: own-library\nVersion: 2.0\n")
    write(site, "own_library-2.0.dist-info/top_level.txt", "own_library\n")
    write(site, "own_loose.py", "")
    locate._tops_to_packages.cache_clear()
    assert closure("own_operator").files.keys() == {"own_operator.py", "own_loose.py"}


def test_a_malformed_declaration_is_refused_with_its_place(site: Path) -> None:
    write(site, "own_operator.py", 'VERSIONED_PACKAGES = "sympy"\n')
    with pytest.raises(InputError, match=r"own_operator\.py:1: VERSIONED_PACKAGES must be a tuple of names"):
        closure("own_operator")


def test_a_package_that_is_neither_here_nor_pinned_is_said_to_be_missing(site: Path) -> None:
    write(site, "own_operator.py", 'VERSIONED_PACKAGES = ("no-such-package", "math-verify")\n')
    found = closure("own_operator").packages
    assert found["no-such-package"] == "not installed" and found["math-verify"][0].isdigit()


@pytest.mark.parametrize("command", ["plan", "run"])
def test_plan_and_run_refuse_in_one_line(tmp_path: Path, command: str) -> None:
    source = write(tmp_path, "own_demonstrator.py", DEMONSTRATOR)
    py_compile.compile(str(source), cfile=str(tmp_path / "own_demonstrator.pyc"))
    source.unlink()
    write(tmp_path, "own-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    write(
        tmp_path,
        "own-1.0.dist-info/entry_points.txt",
        "[posttrain.operators]\ndemonstrator.own = own_demonstrator:own\n",
    )
    write(tmp_path, "own.yaml", RECIPE)
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", command, "own.yaml", "--store", str(tmp_path / "store")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "POSTTRAIN_LINEAGE": "later"},
        timeout=120,
    )
    assert done.returncode != 0
    said = (done.stdout + done.stderr).splitlines()
    refusals = [line for line in said if "demonstrator operator 'own': no Python source of 'own_demonstrator'" in line]
    assert len(refusals) == (1 if command == "plan" else 2)  # a run tells it as it happens, and at its end
    assert "Traceback" not in done.stdout + done.stderr


DEMONSTRATOR = """
from components.contract.params import Params
class OwnConfig(Params):
    pass
def own(item, rng, *, config: OwnConfig):
    return f"<answer>{item.answer}"
"""
RECIPE = """
name: own
summary: A demonstrator without source
stages:
  data:
    uses: curate
    with:
      kind: demonstrations
      size: 4
      sources:
        - {source: {name: rules, accepts: [{rules: [copy]}]}, domain: copies, demonstrators: [{demonstrator: own}]}
"""
