"""Package folders, projects and installed distributions as code: what of them travels, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.contract.operator_packages import contents
from components.contract.operator_packages.assemble import assembled, imported_tops
from components.contract.operator_packages.code import CodeTree, PackageCode
from components.contract.operator_packages.folder import read_folder, read_installed
from components.contract.operator_packages.rules import check_modules


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with two modules and a file of data."""
    folder = tmp_path / "my_package"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "rewards.py").write_text("from .scale import worth\n")
    (folder / "scale.py").write_text("def worth(text):\n    return 0\n")
    (folder / "data" / "words.txt").write_text("please\n")
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_folder(folder, "./my_package")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_package_travels_with_its_data_and_without_what_python_or_git_made(package: Path) -> None:
    before = read_folder(package, "./my_package")
    for hidden in (".env", ".git/config", "__pycache__/scale.cpython-311.pyc", "data/.netrc"):
        (package / hidden).parent.mkdir(exist_ok=True)
        (package / hidden).write_text("SECRET=1")
    found = read_folder(package, "./my_package")
    assert found == before and found.modules == ("my_package",)
    assert sorted(contents.of(found.digest)) == [
        "my_package/__init__.py",
        "my_package/data/words.txt",
        "my_package/rewards.py",
        "my_package/scale.py",
    ]
    (package / "data" / "words.txt").write_text("thanks\n")
    assert read_folder(package, "./my_package").digest != before.digest


def test_links_special_files_secrets_and_native_code_are_refused(package: Path) -> None:
    link = package / "linked.py"
    link.symlink_to("/etc/passwd")
    assert refusal(package) == "./my_package: linked.py is a link; links do not travel"
    link.unlink()
    (package / "loop").symlink_to(package)
    assert "loop is a link" in refusal(package)
    (package / "loop").unlink()
    os.mkfifo(package / "pipe")
    assert "pipe is a device or a pipe" in refusal(package)
    (package / "pipe").unlink()
    (package / "server.pem").write_text("-----BEGIN")
    assert "looks like a secret" in refusal(package)
    (package / "server.pem").unlink()
    (package / "fast.abi3.so").write_bytes(b"\x7fELF")
    assert "is a native extension" in refusal(package)


def test_a_project_gives_its_packages_and_not_its_tests(tmp_path: Path, package: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "pyproject.toml").write_text('[project]\nname = "my-rules"\nversion = "1"\n')
    assert "a project without a package" in refusal(project)
    package.rename(project / "src" / "my_package")
    (project / "tests").mkdir()
    (project / "tests" / "__init__.py").touch()
    found = read_folder(project, "./project")
    assert (found.name, found.distribution, found.modules) == ("my-rules", "my-rules", ("my_package",))
    assert all(path.startswith("my_package/") for path in contents.of(found.digest))
    (project / "pyproject.toml").write_text("not [ toml")
    assert "pyproject.toml:" in refusal(project)
    assert "neither a package" in refusal(tmp_path)


def test_an_installed_distribution_travels_as_it_is_installed() -> None:
    found = read_installed("pluggy", "pluggy")
    assert found.modules == ("pluggy",) and "pluggy/__init__.py" in contents.of(found.digest)
    check_modules(found, "pluggy")
    with pytest.raises(InputError, match="no package of this name is installed here"):
        read_installed("no-such-distribution", "no-such-distribution")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("components", "posttrain's own"),
        ("pipelines", "posttrain's own"),
        ("json", "Python's own"),
        ("pluggy", "pluggy"),
    ],
)
def test_a_module_that_would_hide_another_is_refused(module: str, said: str) -> None:
    tree = CodeTree(name="x", digest="0" * 64, modules=(module,))
    with pytest.raises(InputError, match=said) as caught:
        check_modules(tree, "./x")
    assert "\n" not in str(caught.value)


def test_an_operator_takes_along_the_trees_that_its_own_imports(tmp_path: Path, package: Path) -> None:
    other, third = tmp_path / "rules", tmp_path / "unused"
    for folder in (other, third):
        folder.mkdir()
        (folder / "__init__.py").touch()
    trees = [read_folder(folder, f"./{folder.name}") for folder in (third, other, package)]
    assert assembled(trees[2], trees).trees == (trees[2],)
    (package / "scale.py").write_text("import importlib\nrules = importlib.import_module('rules')\n")
    trees[2] = read_folder(package, "./my_package")
    assert imported_tops(trees[2]) >= {"rules", "importlib"}
    assert assembled(trees[2], trees).trees == (trees[2], trees[1])
    (package / "scale.py").write_text("def worth(:\n")
    with pytest.raises(InputError, match=r"my_package/scale.py:1: not Python"):
        assembled(read_folder(package, str(package)), trees)


def test_where_the_files_lay_is_no_part_of_the_digest(package: Path) -> None:
    tree = read_folder(package, "./my_package")
    moved = tree.model_copy(update={"path": "/elsewhere"})
    assert PackageCode(trees=(tree,)).digest == PackageCode(trees=(moved,)).digest


def test_a_name_that_is_no_text_is_refused_in_a_line(package: Path) -> None:
    Path(os.fsdecode(os.fsencode(package) + b"/bad\xff.txt")).write_text("x")
    assert "is no path inside of it" in refusal(package)


def test_files_that_differ_in_case_only_are_refused(package: Path) -> None:
    (package / "Scale.py").touch()
    assert "my_package/Scale.py and my_package/scale.py cannot both lie in a folder" in refusal(package)
