"""Hostile model folders: each loader ends in one line that names file and reason, and none runs a folder's code."""

from __future__ import annotations

import ast
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from components.contract.errors import InputError, NotFiniteError
from components.modeling.generation.generate import generate
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.exported import check_exported
from components.modeling.loading.load import load_policy
from components.modeling.models.folder import load_tokenizer
from components.modeling.scorers.load import load_network
from components.serve.server.drawing import Drawer
from pipelines.plan.known import _bad_model
from tests.contract.model_folders.hostile import AT_LOADING, HOSTILE, own_code
from tests.modeling.chat_models import LAYOUTS, save_model

ROOT = Path(__file__).parents[3]
LOADERS: dict[str, Callable[[Path], Any]] = {
    "native": lambda folder: load_policy(folder, backend="native"),
    "hosted": lambda folder: load_policy(folder, backend="transformers"),
    "scorer": lambda folder: load_network(folder, "scorers[0]", device="cpu", dtype="float32"),
    "server": lambda folder: (load_tokenizer(folder), Drawer(folder, dtype="float32", device="cpu")),
    "export": lambda folder: check_exported(folder, folder),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model."""
    folder = tmp_path_factory.mktemp("sound") / "model"
    save_model(LAYOUTS["llama3"], folder)
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    """A copy of it to break."""
    return Path(shutil.copytree(sound, tmp_path / "model"))


@pytest.mark.parametrize("kind", HOSTILE)
def test_every_loader_refuses_in_one_line(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hurt, message = HOSTILE[kind]
    hurt(folder)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 99))
    for name, load in LOADERS.items():
        if kind in AT_LOADING and name == "scorer":
            continue  # the model is none, which shows first
        with pytest.raises(InputError, match=message) as caught:
            load(folder)
        assert "\n" not in str(caught.value)
    assert not (folder.parent / "marker").exists()
    told = _bad_model(folder)
    assert kind in AT_LOADING or (told is not None and "\n" not in told)


def test_a_sound_folder_passes(folder: Path) -> None:
    assert _bad_model(folder) is None
    for name in ("native", "hosted", "server"):
        LOADERS[name](folder)


@pytest.mark.parametrize("loader", ["native", "hosted", "server"])
def test_code_beside_a_known_type_is_left_alone(loader: str, folder: Path) -> None:
    """As of published models that transformers has classes for: they ran, and run."""
    marker = folder.parent / "marker"
    kept = {name: (folder / name).read_text() for name in ("config.json", "tokenizer_config.json")}
    own_code(folder, marker)
    for name, text in kept.items():
        named = json.loads((folder / name).read_text())["auto_map"]
        (folder / name).write_text(json.dumps({**json.loads(text), "auto_map": named}))
    LOADERS[loader](folder)
    assert not marker.exists()


@pytest.mark.parametrize("backend", ["native", "transformers"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_named(folder: Path, backend: Any, value: float) -> None:
    path = folder / "model.safetensors"
    weights = {name: tensor.clone() for name, tensor in load_file(path).items()}
    weights["model.layers.1.mlp.down_proj.weight"][3, 5] = value
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(InputError, match=r"model\.safetensors: model\.layers\.1\.mlp\.down_proj\.weight has 1 of 2048"):
        load_policy(folder, backend=backend)


def test_a_weight_too_large_for_the_type_is_told(folder: Path) -> None:
    path = folder / "model.safetensors"
    weights = {name: tensor.clone() for name, tensor in load_file(path).items()}
    weights["model.norm.weight"][0] = 1e6
    save_file(weights, path, {"format": "pt"})
    load_policy(folder)
    with pytest.raises(InputError, match="too large for float16"):
        load_policy(folder, dtype="float16")


def test_logits_that_are_no_numbers_are_told(sound: Path) -> None:
    policy = load_policy(sound)
    with torch.no_grad():
        next(iter(policy.module.parameters())).fill_(float("nan"))
    for temperature in (1.0, 0.0):
        with pytest.raises(NotFiniteError, match="logits are NaN or infinite"):
            generate(
                policy,
                [[1, 2, 3]],
                SamplingConfig(num_samples=2, max_new_tokens=4, temperature=temperature),
                generator=torch.Generator().manual_seed(0),
            )


def test_no_call_of_the_product_lets_code_run() -> None:
    wrong = []
    for floor in ("components", "pipelines", "dags"):
        for path in (ROOT / floor).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "from_pretrained" in text else ():
                if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "from_pretrained"):
                    continue
                if ast.unparse(node.func).startswith("PeftModel."):  # loads weights into a model that is there
                    continue
                if '"trust_remote_code": False' in ast.unparse(node).replace("'", '"'):
                    continue
                given = {word.arg: word.value for word in node.keywords}.get("trust_remote_code")
                if not (isinstance(given, ast.Constant) and given.value is False):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
            assert "trust_remote_code=True" not in text and "--trust-remote-code" not in text, path
    assert wrong == []


@pytest.mark.parametrize("command", [["chat"], ["validate"], ["run"]])
def test_yes_on_standard_input_runs_nothing(command: list[str], folder: Path, tmp_path: Path) -> None:
    own_code(folder, tmp_path / "marker")
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"name: r\nstages:\n  a:\n    uses: adopt\n    in: {{model: {folder}}}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *command, str(folder if command == ["chat"] else recipe)],
        input="y\n" * 1000,
        capture_output=True,
        text=True,
        timeout=100,
        cwd=tmp_path,
        env={
            **os.environ,
            "POSTTRAIN_STORE": str(tmp_path / "store"),
            "POSTTRAIN_LINEAGE": "later",
            "PYTHONPATH": str(ROOT),
        },
    )
    assert done.returncode == 2 and "never runs" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr and not (tmp_path / "marker").exists()
