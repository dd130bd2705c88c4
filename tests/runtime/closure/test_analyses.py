"""What is kept of the analysis of source: it never changes a result, whatever becomes of its file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from components.runtime.closure import analyses, source
from components.runtime.closure.analyses import Analyses, key_of
from components.runtime.closure.source import parse_source, read_source

COMPONENTS = Path(source.__file__).parents[2]
READ = """
import sys
from pathlib import Path
from components.runtime.closure import source
parsed = []
original = source.parse_source
source.parse_source = lambda *told: parsed.append(told) or original(*told)
print(repr(source.read_source(Path(sys.argv[1]), sys.argv[2], False)), len(parsed), sep="\\n")
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache of the test's own; this process begins with nothing."""
    monkeypatch.setenv("POSTTRAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(source, "_ANALYSES", Analyses(b"version"))
    monkeypatch.setattr(source, "_read", {})
    return tmp_path / "cache" / analyses.FOLDER


def test_what_was_kept_is_what_the_text_says(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted(COMPONENTS.rglob("*.py"))
    expected = {path: parse_source(path.read_bytes(), path.stem, False, str(path)) for path in files}
    for path in files:
        read_source(path, path.stem, False)
    source.keep_analyses()
    monkeypatch.setattr(source, "_read", {})
    monkeypatch.setattr(source, "_ANALYSES", Analyses(b"version"))
    monkeypatch.setattr(source, "parse_source", lambda *told: pytest.fail(f"analysed again: {told[1]}"))
    assert {path: read_source(path, path.stem, False) for path in files} == expected


def test_a_later_process_reads_and_an_edit_is_seen(cache: Path, tmp_path: Path) -> None:
    module = tmp_path / "door.py"
    module.write_text("import a.b\nVALUE = '\\ud800'\nHERE = __file__\n")

    def asked(name: str = "house.door") -> tuple[str, int]:
        told = subprocess.run(
            [sys.executable, "-c", READ, str(module), name], check=True, capture_output=True, text=True
        ).stdout.splitlines()
        return told[0], int(told[1])

    first, parsed = asked()
    assert parsed == 1 and first == repr(parse_source(module.read_bytes(), "house.door", False, ""))
    assert asked() == (first, 0)
    assert asked("other.door")[1] == 1, "relative imports depend on the module's name"
    module.write_text("import a.c\n")
    edited, parsed = asked()
    assert parsed == 1 and "a.c" in edited


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"sha256":"0","value":{}}\n', b"\xff\x00"])
def test_a_damaged_file_counts_as_none_and_is_replaced(cache: Path, damage: bytes) -> None:
    first = Analyses(b"version")
    first.get("key")
    first.put("key", [1])
    first.save()
    (file,) = cache.glob("*.json")
    whole = file.read_bytes()
    file.write_bytes(damage)
    again = Analyses(b"version")
    assert again.get("key") is None
    again.put("key", [1])
    again.save()
    assert file.read_bytes() == whole


def test_a_flipped_byte_is_no_other_result(cache: Path) -> None:
    first = Analyses(b"version")
    first.put("key", ["abc"])
    first.save()
    (file,) = cache.glob("*.json")
    file.write_bytes(file.read_bytes().replace(b"abc", b"abd"))
    assert Analyses(b"version").get("key") is None


def test_writers_keep_what_others_wrote_and_versions_their_own(cache: Path) -> None:
    one, other, newer = Analyses(b"version"), Analyses(b"version"), Analyses(b"newer")
    assert one.get("a") is None and other.get("b") is None
    one.put("a", 1)
    other.put("b", 2)
    one.save()
    other.save()
    assert [Analyses(b"version").get(key) for key in "ab"] == [1, 2]
    assert newer.get("a") is None


def test_a_full_file_keeps_what_is_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyses, "MOST", 2)
    first = Analyses(b"version")
    first.put("old", 1)
    first.put("used", 2)
    first.save()
    second = Analyses(b"version")
    assert second.get("used") == 2
    second.put("new", 3)
    second.save()
    third = Analyses(b"version")
    assert [third.get(key) for key in ("old", "used", "new")] == [None, 2, 3]


def test_a_cache_that_cannot_be_written_stops_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POSTTRAIN_CACHE", str(tmp_path / "file" / "below"))
    module = tmp_path / "door.py"
    module.write_text("import a.b\n")
    assert read_source(module, "door", False).names == ("a.b",)
    source.keep_analyses()


def test_the_key_has_everything_that_a_result_depends_on() -> None:
    base = (b"text", "module", False, "")
    others = [(b"other", "module", False, ""), (b"text", "m", False, ""), (b"text", "module", True, "")]
    keys = {key_of(text, *about) for text, *about in [base, *others, (b"text", "module", False, "Class")]}
    assert len(keys) == 5
