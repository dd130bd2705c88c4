"""GGUF files by a stand-in for llama.cpp's converter: how it is found and called, and how each of its ends is told.

The converter itself is not among the tests' libraries: what it makes of weights is its own.
"""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.runtime.store import Store, open_store
from pipelines.cli import main
from pipelines.models.export import Exported, export_model
from pipelines.models.find import find_model
from pipelines.models.gguf import GGUF_TYPES, GgufFile, find_converter
from tests.modeling.chat_models import LAYOUTS, save_model

WRITES = """
import json, struct, sys
from pathlib import Path
folder, out = Path(sys.argv[1]), Path(sys.argv[sys.argv.index("--outfile") + 1])
assert (folder / "config.json").is_file() and list(folder.glob("*.safetensors")) and not list(folder.glob("*.bin"))
out.write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 17, 5) + json.dumps(sys.argv[3:]).encode())
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of llama.cpp with a stand-in for the converter, which LLAMA_CPP names."""
    folder = tmp_path / "llama.cpp"
    folder.mkdir()
    (folder / "convert_hf_to_gguf.py").write_text(WRITES)
    monkeypatch.setenv("LLAMA_CPP", str(folder))
    return folder


def export(store: Store, tmp_path: Path, **options: object) -> Exported:
    save_model(LAYOUTS["qwen2.5-base"], tmp_path / "base")
    model = find_model(store, str(tmp_path / "base"))
    return export_model(store, model, tmp_path / "out", check=False, **{"gguf": "q8_0", **options})  # type: ignore[arg-type]


def test_the_file_lies_in_the_folder(store: Store, llama_cpp: Path, tmp_path: Path) -> None:
    made = export(store, tmp_path)
    assert made.gguf == GgufFile("model-q8_0.gguf", 3, 17)
    written = (tmp_path / "out" / "model-q8_0.gguf").read_bytes()
    assert json.loads(written[24:])[1:] == ["--outtype", "q8_0"]
    assert (tmp_path / "out" / "README.md").is_file()


def test_a_converter_on_the_path_is_run_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLAMA_CPP", raising=False)
    script = tmp_path / "bin" / "convert_hf_to_gguf"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\n{WRITES}")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(script.parent))
    assert find_converter() == [str(script)]
    monkeypatch.setenv("LLAMA_CPP", str(script))
    assert find_converter() == [str(script)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "import sys; sys.exit('Model FooForCausalLM is not supported')",
            "code 1: Model FooForCausalLM is not supported",
        ),
        ("print('done')", "left no GGUF file with tensors: done"),
        ("import sys; open(sys.argv[3], 'wb').write(b'GGUF')", "left no GGUF file"),
        ("print('\\x1b[2Jred' * 999); raise SystemExit(3)", r"ended with code 3: \\x1b\[2Jred"),
        ("import os; os.kill(os.getpid(), 9)", "ended with code -9: it said nothing"),
    ],
)
def test_each_end_of_the_converter_is_one_line_and_leaves_nothing(
    text: str, told: str, store: Store, llama_cpp: Path, tmp_path: Path
) -> None:
    (llama_cpp / "convert_hf_to_gguf.py").write_text(text)
    with pytest.raises(InputError, match=told) as error:
        export(store, tmp_path)
    assert "\n" not in str(error.value) and "\x1b" not in str(error.value) and len(str(error.value)) < 500
    assert {path.name for path in tmp_path.iterdir()} - {"store"} == {"base", "llama.cpp"}


def test_without_a_converter_one_line_says_what_to_install(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("LLAMA_CPP", raising=False)
    save_model(LAYOUTS["qwen2.5-base"], tmp_path / "base")
    asked = ["export", str(tmp_path / "base"), str(tmp_path / "out"), "--store", store.uri]
    capsys.readouterr()
    assert main([*asked, "--gguf"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "git clone https://github.com/ggml-org/llama.cpp and set LLAMA_CPP" in line
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path / "nowhere"))
    assert main([*asked, "--gguf", "f16"]) == 2
    assert "where no convert_hf_to_gguf.py is" in capsys.readouterr().err
    monkeypatch.setenv("LLAMA_CPP", __file__)
    assert main([*asked, "--gguf", "--adapter"]) == 2
    assert "leave out --adapter" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_types_are_those_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["export", "model", "folder", "--gguf", "q4_k"])
    told = capsys.readouterr().err
    assert all(name in told for name in GGUF_TYPES)
