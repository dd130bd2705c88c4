"""Teachers whose logits are compared: what is known of them before a run is checked with the recipe, in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.pipelines.writing import load, messages

PLACE = re.compile(r"\d+:\d+ ")
POOLS = """
cpu: {cpus: 1, memory_gib: 4}
gpus: {cpus: 8, memory_gib: 64, gpus: 2, gpu_type: nvidia-h100, gpu_memory_gib: 80}
endpoints:
  big: {base_url: http://127.0.0.1:1/v1, model: big-1}
"""
RECIPE = """
stages:
  learn:
    uses: rl
    %s
    in: {model: %s, dataset: /data/rows.jsonl, teachers: %s}
    with: {steps: 2, method: reinforce, %s}
"""
DISTILL = "objective: distill"


@pytest.fixture(autouse=True)
def pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))


def folder(path: Path, vocabulary: object, **added: int) -> Path:
    """Write as much of a model as tells its tokens."""
    path.mkdir()
    content = {
        "model": {"vocab": vocabulary},
        "added_tokens": [{"content": text, "id": at} for text, at in added.items()],
    }
    (path / "tokenizer.json").write_text(json.dumps(content))
    (path / "config.json").write_text("{}")
    return path


def found(tmp_path: Path, model: object, teachers: object, settings: str = DISTILL, words: str = "") -> list[str]:
    (tmp_path / "recipe").mkdir(exist_ok=True)
    lines = messages(tmp_path / "recipe", RECIPE % (words, model, teachers, settings))
    assert all(PLACE.match(line) and "\n" not in line for line in lines)
    return lines


def test_a_server_gives_no_logits(tmp_path: Path) -> None:
    (line,) = found(tmp_path, "/models/start", "endpoint:big")
    assert (
        "objective operator 'distill' compares the logits of input 'teachers', and 'endpoint:big' is a server" in line
    )
    assert load(tmp_path, RECIPE % ("", "/models/start", "endpoint:big", "guidance: teachers")), "it writes"


def test_another_tokenizer_is_one_line_that_names_the_first_difference(tmp_path: Path) -> None:
    own = folder(tmp_path / "own", {"a": 0, "b": 1}, end=2)
    (line,) = found(tmp_path, own, folder(tmp_path / "swapped", {"a": 1, "b": 0}, end=2))
    assert "has another tokenizer than the model: token 'a' is id 0 in the model and id 1 in the other" in line
    (line,) = found(tmp_path, own, [str(folder(tmp_path / "same", {"b": 1, "a": 0}, end=2)),
                                    str(folder(tmp_path / "fewer", [["a", -1.0], ["b", -2.0]]))])  # fmt: skip
    assert "token 'end' is id 2 in the model and absent in the other" in line
    assert load(tmp_path, RECIPE % ("", own, tmp_path / "same", DISTILL))
    assert load(tmp_path, RECIPE % ("", own, tmp_path / "swapped", "guidance: teachers")), "texts go between models"


def test_numbers_among_the_tokens_are_told_and_no_traceback(tmp_path: Path) -> None:
    own = folder(tmp_path / "own", [[1, 0], ["a", 0]])
    (line,) = found(tmp_path, own, folder(tmp_path / "other", [[2, 0], ["b", 0]]))
    assert "token 1 is id 0 in the model and absent in the other" in line


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"model": {"vocab": 3}}', '{"model": {"vocab": [[]]}}', "[" * 10_000]
)
def test_what_nobody_can_read_is_left_to_the_run(tmp_path: Path, content: str) -> None:
    own = folder(tmp_path / "own", {"a": 0})
    other = folder(tmp_path / "other", {"a": 0})
    (other / "tokenizer.json").write_text(content)
    assert load(tmp_path, RECIPE % ("", own, other, DISTILL))
    assert load(tmp_path, RECIPE % ("", own, "hf:nobody/has-this", DISTILL))


def test_a_teacher_that_is_not_there_or_not_asked_is_one_line(tmp_path: Path) -> None:
    text = RECIPE.replace(", teachers: %s", "") % ("", "/models/start", DISTILL)
    (line,) = messages(tmp_path, text)
    assert "objective operator 'distill' asks the input 'teachers', which is not connected" in line
    (line,) = found(tmp_path, "/models/start", "/models/big", "objective: policy_gradient")
    assert "input 'teachers' of stage 'learn' is read by nothing" in line


def test_passes_that_ranks_divide_are_refused(tmp_path: Path) -> None:
    words = "pool: gpus\n    backend: {trainer: fsdp, tensor_parallel: 2}"
    (line,) = found(tmp_path, "/models/start", "/models/big", DISTILL, words)
    assert "'distill': no pass of policy and teacher is divided over ranks; set tensor_parallel: 1" in line


def test_a_value_out_of_range_is_one_line(tmp_path: Path) -> None:
    (line,) = found(tmp_path, "/models/start", "/models/big", "objective: {name: distill, beta: 0.5}")
    assert "beta is the mixture's of divergence jsd, and reverse_kl has none" in line
    (line,) = found(tmp_path, "/models/start", "/models/big", "objective: {name: distill, divergence: kld}")
    assert "kld" in line
