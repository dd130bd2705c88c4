"""Wheels as code: what travels, and the hostile ones that do not."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.contract.operator_packages import contents, rules, wheel
from components.contract.operator_packages.wheel import pinned_path, read_wheel
from tests.contract.operator_packages.wheels import build_wheel, digest_of

FILES = {"rules/__init__.py": "", "rules/length.py": "def short(text):\n    return len(text) < 9\n"}


def refusal(path: Path, pin: str = "") -> str:
    with pytest.raises(InputError) as caught:
        read_wheel(path, path.name, pin)
    text = str(caught.value)
    assert "\n" not in text and "\x1b" not in text and text.startswith(path.name)
    return text


def test_a_wheel_travels_as_its_files(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, "rules", FILES, requires=["numpy>=1", "rich; extra == 'shown'"])
    found = read_wheel(path, "dist/rules.whl")
    assert found.tree.modules == ("rules",) and found.tree.distribution == "rules" and found.version == "1.0"
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [str(one) for one in found.requires] == ["numpy>=1"]
    files = contents.of(found.tree.digest)
    assert files["rules/length.py"] == FILES["rules/length.py"].encode() and "rules-1.0.dist-info/METADATA" in files


def test_the_digest_is_that_of_the_files_and_not_of_the_archive(tmp_path: Path) -> None:
    first = read_wheel(build_wheel(tmp_path / "a", "rules", FILES), "a")
    again = build_wheel(tmp_path / "b", "rules", FILES)
    with zipfile.ZipFile(again, "a") as archive:
        archive.comment = b"built on another day"
    second = read_wheel(again, "b")
    assert second.sha256 != first.sha256 and second.tree.digest == first.tree.digest


@pytest.mark.parametrize(
    "name", ["../outside.py", "/etc/cron.d/x", "rules/../../x.py", "rules\\..\\x.py", "C:/x.py", "rules/./x.py"]
)
def test_a_path_that_leads_out_of_it_is_refused(tmp_path: Path, name: str) -> None:
    assert "is no path inside of it" in refusal(build_wheel(tmp_path, "rules", FILES | {name: "x = 1"}))


def test_links_secrets_extensions_and_other_platforms_are_refused(tmp_path: Path) -> None:
    link = build_wheel(tmp_path / "a", "rules", FILES, links={"rules/secret.py": "/etc/passwd"})
    assert "rules/secret.py is a link" in refusal(link)
    assert "looks like a secret" in refusal(build_wheel(tmp_path / "b", "rules", FILES | {"rules/.env": "KEY=1"}))
    native = build_wheel(tmp_path / "c", "rules", FILES | {"rules/fast.cpython-311-x86_64-linux-gnu.so": b"\x7fELF"})
    assert "is a native extension; only pure Python travels" in refusal(native)
    other = build_wheel(tmp_path / "d", "rules", FILES, tag="cp311-cp311-manylinux_2_28_aarch64")
    assert "built for cp311-cp311-manylinux_2_28_aarch64; only pure Python" in refusal(other)
    assert "needs Python >=3.99" in refusal(build_wheel(tmp_path / "e", "rules", FILES, python=">=3.99"))


def test_escapes_in_names_never_reach_a_terminal(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, "rules", FILES | {"rules/\x1b[2Jx.pem": "x"})
    assert "\\x1b[2Jx.pem" in refusal(path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a file of code may have" in refusal(
        build_wheel(tmp_path / "a", "rules", FILES | {"rules/data.bin": b"\0" * (rules.MAX_FILE_BYTES + 1)})
    )
    many = {f"rules/data{index}.bin": b"\0" * rules.MAX_FILE_BYTES for index in range(5)}
    assert "code may have 64.0 MiB" in refusal(build_wheel(tmp_path / "b", "rules", FILES | many))
    monkeypatch.setattr(rules, "MAX_FILES", 3)
    assert "more than 3 files" in refusal(build_wheel(tmp_path / "c", "rules", FILES | {"rules/more.py": ""}))


def test_a_size_that_lies_is_noticed(tmp_path: Path) -> None:
    """The archive's directory says 4 bytes; its stream gives more."""
    path = build_wheel(tmp_path, "rules", FILES | {"rules/data.txt": "x" * 1000})
    data = bytearray(path.read_bytes())
    for at in range(len(data) - 4):  # every size field of that entry
        if data[at : at + 4] == (1000).to_bytes(4, "little"):
            data[at : at + 4] = (4).to_bytes(4, "little")
    path.write_bytes(data)
    assert any(text in refusal(path) for text in ("not readable as a wheel", "does not have the size"))


def test_every_file_has_the_digest_of_its_record(tmp_path: Path) -> None:
    assert "does not match its RECORD" in refusal(build_wheel(tmp_path, "rules", FILES, record=False))
    path = build_wheel(tmp_path / "b", "rules", FILES)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("rules/added.py", "import os\n")
    assert "rules/added.py does not match its RECORD" in refusal(path)


def test_a_pin_must_hold(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, "rules", FILES)
    assert pinned_path(f"./dist/x.whl{wheel.PIN}{'0' * 64}") == ("./dist/x.whl", "0" * 64)
    assert f"the recipe pins {'0' * 64}" in refusal(path, "0" * 64)
    assert read_wheel(path, "x", hashlib.sha256(path.read_bytes()).hexdigest()).version == "1.0"


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 not a zip", b"\0" * 4096])
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "rules-1.0-py3-none-any.whl"
    path.write_bytes(data)
    assert "not readable as a wheel" in refusal(path)
    bad = tmp_path / "rules.whl"
    bad.write_bytes(data)
    assert "no name of a wheel" in refusal(bad)


def rewritten(path: Path, name: str, change: Callable[[bytes], bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write a wheel again with one file changed; what RECORD says of it stays."""
    with zipfile.ZipFile(path) as archive:
        whole = {one.filename: archive.read(one) for one in archive.infolist()}
    with zipfile.ZipFile(path, "w", method) as archive:
        for entry, data in whole.items():
            archive.writestr(entry, change(data) if entry.endswith(name) else data)
    return path


@pytest.mark.parametrize(
    "record, told",
    [
        (b"rules/__init__.py,sha256=x,0\rrules,y\r\r\n", "does not match its RECORD"),
        (b"x" * 200_000, "RECORD: field larger than field limit"),
        (b"\0\xff" * 40, "does not match its RECORD"),
    ],
)
def test_a_hostile_record_is_told_in_a_line(tmp_path: Path, record: bytes, told: str) -> None:
    assert told in refusal(rewritten(build_wheel(tmp_path, "rules", FILES), "/RECORD", lambda _: record))


@pytest.mark.parametrize(
    "asked, version, told",
    [
        (["numpy; os_name ~= 'posix'"], "1.0", "METADATA: Undefined <Op('~=')>"),
        (["numpy; no_such_variable == 'x'"], "1.0", "METADATA: "),
        (["numpy ??"], "1.0", "METADATA: "),
        ([], "one point oh\x1b[2J", "METADATA: Invalid version: 'one point oh"),
    ],
)
def test_hostile_metadata_is_told_in_a_line(tmp_path: Path, asked: list[str], version: str, told: str) -> None:
    made = build_wheel(tmp_path, "rules", FILES, requires=asked)
    said = f"\nVersion: {version}".encode()
    path = rewritten(made, "/METADATA", lambda data: data.replace(b"\nVersion: 1.0", said))
    assert told in refusal(with_record(path))


def test_a_distribution_has_a_plain_name(tmp_path: Path) -> None:
    made = build_wheel(tmp_path, "rules", FILES)
    path = rewritten(made, "/METADATA", lambda data: data.replace(b"Name: rules", b"Name: rules\x1b[2J\n  more"))
    assert "is no name of a distribution" in refusal(with_record(path))


def with_record(path: Path) -> Path:
    """Write a wheel's RECORD again, so that it matches."""
    with zipfile.ZipFile(path) as archive:
        whole = {one.filename: archive.read(one) for one in archive.infolist()}
    (told,) = {name.partition("/")[0] for name in whole if ".dist-info" in name}
    rows = [f"{name},sha256={digest_of(data)},{len(data)}" for name, data in whole.items() if "/RECORD" not in name]
    return rewritten(path, "/RECORD", lambda _: "\n".join([*rows, f"{told}/RECORD,,", ""]).encode())


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
def test_a_damaged_stream_of_any_method_is_no_wheel(tmp_path: Path, method: int) -> None:
    path = rewritten(build_wheel(tmp_path, "rules", FILES), "none", lambda data: data, method)
    data = bytearray(path.read_bytes())
    at = data.index(b"rules/length.py") + len("rules/length.py")
    data[at : at + 30] = b"\xff" * 30
    path.write_bytes(data)
    assert "not readable as a wheel" in refusal(path)


@pytest.mark.parametrize(
    "more, told",
    [
        ({"rules/length.py/inner.py": "x = 1"}, "rules/length.py and rules/length.py/inner.py cannot both lie"),
        ({"rules/Length.py": "x = 1"}, "rules/Length.py and rules/length.py cannot both lie"),
        ({"rules/caf\u00e9.txt": "x", "rules/cafe\u0301.txt": "x"}, "cannot both lie in a folder"),
        ({"RULES": "x"}, "cannot both lie in a folder"),
        ({"rules/" + "\u00e4" * 130: "x"}, "more than 255 bytes"),
        ({"rules/two\nlines.txt": "x"}, "is no path inside of it"),
        ({"rules/\u202ename.txt": "x"}, "is no path inside of it"),
    ],
)
def test_names_that_do_not_fit_together_or_a_disk_are_refused(tmp_path: Path, more: dict[str, str], told: str) -> None:
    assert told in refusal(build_wheel(tmp_path, "rules", FILES | more))
