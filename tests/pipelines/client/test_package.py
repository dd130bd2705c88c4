"""`import posttrain`: instant, typed, documented, and in what is installed."""

from __future__ import annotations

import inspect
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import posttrain
import pytest

from tests.pipelines.test_imports import HEAVY
from tests.support.kernel import kernel_environment

ROOT = Path(__file__).parents[3]


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    code = "import posttrain, sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=kernel_environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert set(HEAVY) & set(json.loads(done.stdout)) == set()


def test_every_public_thing_is_documented_and_typed() -> None:
    assert posttrain.__all__ == sorted(posttrain.__all__)
    for name in posttrain.__all__:
        thing = getattr(posttrain, name)
        assert inspect.getdoc(thing), name
        members = vars(thing).items() if inspect.isclass(thing) and "client" in thing.__module__ else [("", thing)]
        for member, found in members:
            found = found.fget if isinstance(found, property) else found
            if inspect.isfunction(found) and not member.startswith("_"):
                assert inspect.getdoc(found), f"{name}.{member}"
                assert inspect.signature(found).return_annotation is not inspect.Signature.empty, f"{name}.{member}"


def test_the_package_is_found_where_pyproject_says_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from setuptools.config.pyprojecttoml import read_configuration

    monkeypatch.chdir(ROOT)
    found = read_configuration("pyproject.toml", expand=True)["tool"]["setuptools"]
    assert "posttrain" in found["packages"] and "pipelines.client" in found["packages"]
    assert [name for name in found["packages"] if name.startswith("pipelines.client.src")] == []
    assert found["package-dir"]["posttrain"] == "pipelines/client/src/posttrain"


@pytest.mark.slow
def test_a_wheel_holds_it(tmp_path: Path) -> None:
    tree = tmp_path / "tree"  # setuptools builds beside the sources
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    for name in ("components", "pipelines", "dags"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-build-isolation",
        "--no-deps",
        ".",
        "-w",
        str(tmp_path),
    ]
    subprocess.run(command, cwd=tree, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    wanted = [
        "posttrain/__init__.py",
        "posttrain/py.typed",
        "pipelines/client/run.py",
        "pipelines/client/templates/report.html",
    ]
    assert set(wanted) <= set(names)
    assert [name for name in names if name.startswith("pipelines/client/src")] == []
