"""Reading operators' files: what travels with them, and what is refused; nothing is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.contract.operator_files.code import MAX_BYTES, OperatorCode
from components.contract.operator_files.gather import read_code


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder / f"{next(iter(files))}.py"


def test_modules_beside_the_file_travel_with_it_at_any_depth(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        reward="import json, torch\nimport words\nfrom components.rl.configs import RewardConfig\n",
        words="from deep import letters\n",
        deep="letters = 'ab'\n",
        unrelated="import reward\n",
    )
    assert sorted(read_code(path).files) == ["deep.py", "reward.py", "words.py"]


def test_the_digest_is_of_names_and_texts_and_not_of_the_place(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        write(folder, reward="import words\n", words="limit = 3\n")
    first, second = read_code(here / "reward.py", "here/reward.py"), read_code(there / "reward.py", "x.py")
    assert first.digest == second.digest
    write(there, words="limit = 4\n")
    assert read_code(there / "reward.py").digest != first.digest, "an edit of a module beside it counts"
    assert OperatorCode(file="a.py", files={"a.py": "1", "b.py": "2"}).digest != (
        OperatorCode(file="a.py", files={"a.py": "1b.py", "b.py": "2"}).digest
    )


def test_reading_runs_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    read_code(write(tmp_path, reward=f"open({str(mark)!r}, 'w')\nraise SystemExit\n"))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def broken(:\n", r"reward\.py:1: not Python"),
        ("x = 1\nwords = open(__file__).read()\n", r"reward\.py:2: __file__"),
        ("from lib import words\n", r"reward\.py:1: imports lib from beside it: lib is a folder"),
        ("from . import missing\n", r"reward\.py:1: .*no missing\.py"),
        ("from .. import missing\n", r"reward\.py:1: imports from the folder above"),
        ("import json\n", r"reward\.py:1: imports json, and json\.py beside it has a standard module's name"),
        ("#" + "x" * MAX_BYTES, f"may have {MAX_BYTES}"),
        ("import big\n", f"may have {MAX_BYTES}"),
    ],
)
def test_what_cannot_travel_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "words.py").write_text("")
    path = write(tmp_path, reward=text, json="", big="#" + "x" * (MAX_BYTES - 5))
    with pytest.raises(InputError, match=said):
        read_code(path)


@pytest.mark.parametrize("name", ["my reward.py", "-.py", "a\nb.py", "x" * 80 + ".py", "reward.txt"])
def test_a_file_needs_a_name_that_can_travel(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(InputError, match="an operator's file has a name of"):
        read_code(tmp_path / name)


@pytest.mark.parametrize("name", ["../evil.py", "/etc/evil.py", "a/../../evil.py", "evil.py\0"])
def test_code_that_arrives_has_plain_file_names(name: str) -> None:
    with pytest.raises(ValueError, match="file has a name"):
        OperatorCode(file="a.py", files={"a.py": "", name: ""})


def test_a_missing_file_a_folder_and_a_pipe_are_no_files(tmp_path: Path) -> None:
    import os

    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    for name, said in {"gone.py": "No such file", "folder.py": "a folder", "pipe.py": "a named pipe"}.items():
        with pytest.raises(InputError, match=said):
            read_code(tmp_path / name)
