"""A Hugging Face folder as one GGUF file, by llama.cpp's own converter."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from components.contract.errors import InputError
from components.contract.terminal import short_line
from components.runtime.system.parent import die_with_parent

GgufType = Literal["auto", "f32", "f16", "bf16", "q8_0"]
GGUF_TYPES: tuple[str, ...] = get_args(GgufType)
"""What the converter writes by itself; smaller types are made from these by llama-quantize."""
FOLDER = "LLAMA_CPP"
"""Variable that names llama.cpp's folder, or the converter itself."""
CONVERTERS = ("convert_hf_to_gguf.py", "convert_hf_to_gguf")
INSTALL = (
    f"git clone https://github.com/ggml-org/llama.cpp and set {FOLDER} to that folder, or put "
    f"{CONVERTERS[0]} on the PATH"
)
HEAD = struct.Struct("<4sIQQ")
"""GGUF's first bytes: magic, version, tensors, metadata entries."""
LAST_LINES, SHOWN = 3, 300


@dataclass(frozen=True)
class GgufFile:
    """What the converter wrote, by the file's own head."""

    name: str
    version: int
    num_tensors: int


def find_converter() -> list[str]:
    """Return the command that runs llama.cpp's converter; raise InputError, which says what to install, without one.

    A Python file that is not executable runs by this Python, which has torch and transformers.
    """
    given = os.environ.get(FOLDER, "")
    if given:
        place = Path(given).expanduser()
        found = [place] if place.is_file() else [place / name for name in CONVERTERS if (place / name).is_file()]
        if not found:
            raise InputError(f"{FOLDER} is {given}, where no {CONVERTERS[0]} is; {INSTALL}")
        return _command(found[0])
    for name in CONVERTERS:
        if on_path := shutil.which(name):
            return _command(Path(on_path))
    raise InputError(f"--gguf needs llama.cpp's converter, which is not here: {INSTALL}")


def write_gguf(converter: list[str], folder: Path, target: Path, type: GgufType) -> GgufFile:
    """Convert `folder` into the file `target`; raise InputError with the converter's last lines if it cannot."""
    command = [*converter, str(folder), "--outfile", str(target), "--outtype", type]
    with tempfile.TemporaryFile() as said:
        try:
            ended = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, preexec_fn=die_with_parent, check=False
            )
        except OSError as error:
            raise InputError(f"{converter[-1]} cannot be started: {error.strerror or error}") from error
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()[-LAST_LINES:]
    told = short_line(" | ".join(lines), SHOWN) or "it said nothing"
    if ended.returncode:
        raise InputError(f"{converter[-1]} ended with code {ended.returncode}: {told}")
    return _read_head(target, told)


def _command(place: Path) -> list[str]:
    return [str(place)] if os.access(place, os.X_OK) else [sys.executable, str(place)]


def _read_head(path: Path, told: str) -> GgufFile:
    head = b""
    if path.is_file():
        with path.open("rb") as stream:
            head = stream.read(HEAD.size)
    magic, version, num_tensors, _ = HEAD.unpack(head) if len(head) == HEAD.size else (b"", 0, 0, 0)
    if magic != b"GGUF" or not num_tensors:
        raise InputError(f"the converter ended well and left no GGUF file with tensors: {told}")
    return GgufFile(path.name, version, num_tensors)
