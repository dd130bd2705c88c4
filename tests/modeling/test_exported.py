"""An exported folder against the model that was trained: broken for real, and told in a line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from components.contract.errors import InputError
from components.modeling.loading.exported import check_exported
from tests.modeling.chat_models import LAYOUTS, save_model


@pytest.fixture
def source(tmp_path: Path) -> Path:
    save_model(LAYOUTS["qwen2.5-base"], tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(source, tmp_path / "exported"))


def test_a_right_folder_is_read_whole(source: Path, folder: Path) -> None:
    found = check_exported(folder, source)
    held = load_file(folder / "model.safetensors")
    assert found.num_tensors in (len(held), len(held) + 1)  # tied weights lie there once
    assert found.num_positions > 72 and found.difference < 1e-4


def drop(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        held = load_file(folder / "model.safetensors")
        held.pop(next(key for key in held if name in key))
        save_file(held, folder / "model.safetensors", metadata={"format": "pt"})

    return change


def add(folder: Path) -> None:
    held = load_file(folder / "model.safetensors")
    first = next(iter(held.values()))
    save_file(
        {**held, "model.layers.99.mlp.gate_proj.weight": first.clone()}, folder / "model.safetensors", {"format": "pt"}
    )


def scale(folder: Path) -> None:
    held = load_file(folder / "model.safetensors")
    name = next(key for key in held if "down_proj" in key or "o_proj" in key)
    save_file({**held, name: held[name] * 1.5}, folder / "model.safetensors", metadata={"format": "pt"})


def configure(**keys: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | keys))

    return change


def template(folder: Path) -> None:
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        path = folder / name
        if path.is_file() and "<|im_start|>" in path.read_text():
            path.write_text(path.read_text().replace("user", "human").replace("message.role", "'human'"))
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}<|im_start|>human\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (drop("q_proj.weight"), "reports missing keys in the exported folder: .*q_proj"),
        (add, "reports unexpected keys in the exported folder: .*layers.99"),
        (scale, "logits differ by"),
        (configure(rms_norm_eps=0.5), "logits differ by"),
        (configure(model_type="no-such-family"), "transformers cannot load the exported folder"),
        (template, "renders a prompt otherwise than the model's, from token"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"torn"), "transformers cannot load"),
    ],
)
def test_a_wrong_folder_is_told(broken: Callable[[Path], None], said: str, source: Path, folder: Path) -> None:
    broken(folder)
    with pytest.raises(InputError, match=said):
        check_exported(folder, source)
