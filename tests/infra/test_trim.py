"""What makes an image smaller takes out tests, headers and symbols, and leaves what can be imported."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.infra.conftest import INFRA

TRIM = INFRA / "images" / "trim.py"
UNCHECKED = b"\x01\x00\x00\x00"
"""Flags of bytecode that Python takes without a look at the source's time or content (PEP 552)."""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A package with tests, a module that lacks a library, and `testing` that it imports; headers of another."""
    folder = tmp_path / "site-packages"
    files = {
        "library/__init__.py": "from library.testing import check",
        "library/testing/__init__.py": "def check(): ...",
        "library/later.py": "",
        "library/never.py": "",
        "library/broken.py": "raise ImportError('liblost.so: cannot open shared object file')",
        "library/tests/test_it.py": "x" * 1000,
        "torch/__init__.py": "",
        "torch/include/ATen/core.h": "y" * 500,
        "torch/bin/test_api": "z" * 200,
        "torch/bin/torch_shm_manager": "kept",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def run(*arguments: object, path: Path) -> str:
    environment = {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, TRIM, *map(str, arguments)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def test_tests_and_headers_go_and_the_rest_stays(site: Path) -> None:
    assert run("packages", site, path=site) == f"0 MB removed from {site}\n"
    left = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert left == {
        *("library/__init__.py", "library/testing/__init__.py", "library/later.py", "library/never.py"),
        *("library/broken.py", "torch/__init__.py", "torch/bin/torch_shm_manager"),
    }


def test_bytecode_is_of_what_the_code_loads(site: Path, tmp_path: Path) -> None:
    code = tmp_path / "code"
    (code / "ours").mkdir(parents=True)
    (code / "ours" / "__init__.py").write_text("from ours import part\nfrom . import part\n")
    (code / "ours" / "part.py").write_text("def f():\n    import absent.part\n    from library import later, check\n")
    names = run("imports", code, path=site).split()
    assert names == ["absent.part", "library", "library.check", "library.later"]
    (tmp_path / "imports.txt").write_text("\n".join(names))
    assert run("bytecode", site, tmp_path / "imports.txt", path=site) == "3 modules compiled\n"
    compiled = {path.name.partition(".")[0]: path.read_bytes() for path in site.rglob("*.pyc")}
    assert {str(path.parent.parent.relative_to(site)) for path in site.rglob("*.pyc")} == {"library", "library/testing"}
    assert compiled.keys() == {"__init__", "later"}
    assert {content[4:8] for content in compiled.values()} == {UNCHECKED}


def test_a_package_that_cannot_be_imported_any_more_ends_the_build(site: Path, tmp_path: Path) -> None:
    (tmp_path / "imports.txt").write_text("library\nlibrary.broken\n")
    command = [sys.executable, TRIM, "bytecode", site, tmp_path / "imports.txt"]
    environment = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "library.broken: ImportError: liblost.so: cannot open shared object file\n"
    assert not list(site.rglob("*.pyc"))


@pytest.mark.skipif(not shutil.which("strip"), reason="binutils are not installed")
def test_a_library_without_its_symbols_still_loads(site: Path) -> None:
    import tokenizers.tokenizers as library

    source = Path(library.__file__)
    (site / "patched.libs").mkdir()
    for name in ("tokenizers.abi3.so", "patched.libs/libpatched.so"):
        shutil.copy(source, site / name)
    run("packages", site, shutil.which("strip"), path=site)
    assert (site / "tokenizers.abi3.so").stat().st_size < source.stat().st_size
    assert (site / "patched.libs/libpatched.so").read_bytes() == source.read_bytes()
    assert not list(site.rglob("*.stripped"))
    before = (site / "tokenizers.abi3.so").stat()
    run("packages", site, shutil.which("strip"), path=site)
    after = (site / "tokenizers.abi3.so").stat()
    assert (before.st_ino, before.st_ctime_ns) == (after.st_ino, after.st_ctime_ns), "written again, to a further layer"
    subprocess.run([sys.executable, "-c", "import tokenizers"], env={"PYTHONPATH": str(site)}, check=True)


def test_a_wrong_call_says_how_it_is_called() -> None:
    done = subprocess.run([sys.executable, TRIM, "packages"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "trim.py packages SITE_PACKAGES" in done.stderr
