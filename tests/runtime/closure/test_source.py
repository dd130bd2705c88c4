"""What one module's source says: which edits are edits of what it does, and what it may import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.runtime.closure.source import Source, parse_source
from components.runtime.closure.walk import Closures

TEXT = '''
"""A module."""
from __future__ import annotations
import a.b
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from only import types
else:
    from really import imported

VALUE = 1  # one
"""What it is."""


def run(x: int, *rest: int) -> dict[str, int]:
    """Return it."""
    from .near import thing
    text = f"{x:>{VALUE}} of {rest!r}"
    return {**{}, "a": x + 1, text: -0.5} if x < 2 else {}
'''


def parsed(text: str, module: str = "house.room.door") -> Source:
    return parse_source(text.encode(), module, False, "door.py")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# one", "# two"),
        ('"""A module."""', ""),
        ('"""What it is."""', '"""Something else."""'),
        ('    """Return it."""\n', ""),
        ("x + 1", "(x\n+ 1)"),
        ("VALUE = 1 ", "VALUE = 0x1 "),
        ('"a"', "'a'"),
        ("\n\n\ndef", "\n\n\n\n\ndef"),
        ("from only import types", "from only import other"),
    ],
)
def test_what_only_people_or_type_checkers_read_does_not_count(before: str, after: str) -> None:
    assert before in TEXT
    assert parsed(TEXT.replace(before, after)).digest == parsed(TEXT).digest


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x + 1", "x - 1"),
        ("x + 1", "x + 1.0"),
        ("x + 1", "x + True"),
        ("VALUE = 1", "VALUE = 2"),
        ("< 2", "<= 2"),
        ('"a"', '"b"'),
        ('"a"', 'b"a"'),
        (":>{VALUE}", ":<{VALUE}"),
        ("!r}", "!s}"),
        ("*rest", "rest"),
        ("import a.b", "import a.c"),
        ("import a.b", "import a.b as c"),
        ("from .near", "from ..near"),
        ("from really import imported", "pass"),
        ("if x < 2 else", "if not x < 2 else"),
        ("def run", "async def run"),
    ],
)
def test_whatever_changes_what_it_does_counts(before: str, after: str) -> None:
    assert before in TEXT
    assert parsed(TEXT.replace(before, after, 1)).digest != parsed(TEXT).digest


def test_docstrings_count_where_the_code_reads_them() -> None:
    text = f"{TEXT}\nprint(__doc__)\n"
    assert parsed(text).digest != parsed(text.replace("A module", "The module")).digest


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("import other.module", "other.module"),
        ("from other import module", "other.module"),
        ("from . import module", "house.room.module"),
        ("from .. import module", "house.module"),
        ("from .near import module", "house.room.near.module"),
        ("def f():\n    import other.module", "other.module"),
        ("try:\n    import other.module\nexcept ImportError:\n    pass", "other.module"),
        ('importlib.import_module("other.module")', "other.module"),
        ('import_module(".near", __package__)', "house.room.near"),
        ('__import__("other")', "other"),
        ('TARGET = "other.module:run"', "other.module"),
        ('command = [python, "-m", "other.module"]', "other.module"),
        ('path = "other.module.Class"', "other.module"),
    ],
)
def test_every_way_to_import_is_seen(line: str, module: str) -> None:
    source = parsed(line)
    assert module in source.names + source.named


def test_what_only_running_would_tell_is_marked() -> None:
    assert parsed("importlib.import_module(name)").dynamic
    assert not parsed('importlib.import_module("a")').dynamic


def test_text_that_is_no_python_is_refused_with_its_place() -> None:
    with pytest.raises(InputError, match=r"^door\.py: not readable as Python: "):
        parsed("def run(:")


def test_an_import_of_whatever_name_takes_in_the_whole_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"own/__init__.py": "", "own/run.py": "__import__(name)", "own/a.py": "", "own/b/c.py": "", "own/d.txt": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = Closures().of("own.run", "x").files
    assert found.keys() == {name for name in files if name.endswith(".py")}


def test_data_that_a_module_reads_beside_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "own/run.py": 'READS = __file__, "tables", "plain.txt", "more/*.csv"\n',
        "own/tables/rates.json": "[1]",
        "own/plain.txt": "a",
        "own/unread.txt": "b",
        "own/more/a.csv": "1",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = Closures().of("own.run", "x").files
    assert before.keys() == {"own/run.py", "own/tables/rates.json", "own/plain.txt", "own/more/a.csv"}
    (tmp_path / "own/tables/rates.json").write_text("[2, 3]")
    after = Closures().of("own.run", "x").files
    assert {name for name in before if before[name] != after[name]} == {"own/tables/rates.json"}


def test_of_a_single_file_no_folder_beside_it_is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside it lies whatever else is installed; and a text like setup.py names no module of anybody's."""
    (tmp_path / "own_run.py").write_text('here = __file__, "library", "table.json", "setup.py"\n')
    (tmp_path / "table.json").write_text("[]")
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "a.json").write_text("[]")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = Closures().of("own_run", "x").files
    assert found.keys() == {"own_run.py", "own_run/table.json"}


def test_modules_of_this_project_import_by_name_in_known_places_only() -> None:
    """What they import by a name made at run time is no part of a closure: each place has to be looked at."""
    root = Path(__file__).parents[3]
    dynamic = set()
    for path in (root / "components").rglob("*.py"):
        module = path.relative_to(root).with_suffix("").as_posix().replace("/", ".")
        if parse_source(path.read_bytes(), module, False, str(path)).dynamic:
            dynamic.add(module)
    walls = {name for name in dynamic if name.startswith(("components.contract.", "components.runtime."))}
    known = {
        "components.modeling.generation.engine.engine",  # its engine is named in choose.py
        "components.tasks.scoring.together",  # its functions are handed over by verifiers, which import them
    }
    assert dynamic - walls == known
    assert sys.version_info >= (3, 11)
