"""samples, chat, export and the report's samples on one real run of the micro recipe."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.command_line import LIMIT_SECONDS, Project

Finished = tuple[Project, dict[str, Any]]


def test_samples_have_verdict_reward_and_text(finished: Finished) -> None:
    project, shown = finished
    found = project.json("samples", "latest:rl", "--step", "3", "--limit", "3")
    assert found["run_id"] == shown["run_id"]
    rows = found["samples"]
    assert len(rows) == 3 and {row["stage"] for row in rows} == {"rl"} and {row["step"] for row in rows} == {3}
    assert [row["reward"] for row in rows] == sorted(row["reward"] for row in rows)
    for row in rows:
        assert row["outcome"] in ("right", "wrong") and row["prompt"] and row["num_tokens"]
        assert sum(row["parts"].values()) == pytest.approx(row["reward"])
    assert all(row["detail"] for row in rows if row["outcome"] == "wrong")
    text = project.call("samples", f"{shown['run_id']}:eval-rl", "--wrong", "--limit", "1")
    assert text.startswith("eval-rl | ") and "\nmodel\n" in text and "\x1b" not in text
    project.call("samples", "latest:rl", "--step", "99", code=2)
    page = Path(project.json("report", "latest")["page"]).read_text()
    assert 'id="samples"' in page and page.count('<details class="versus"') > 1


def test_an_export_is_a_model_with_a_card_that_transformers_loads_with_equal_logits(
    finished: Finished, tmp_path: Path
) -> None:
    from huggingface_hub import ModelCard
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from components.modeling.loading.load import load_policy
    from components.modeling.packing.packed import Packed

    project, shown = finished
    target = tmp_path / "out" / "model"
    told = project.json("export", "latest:rl.model", str(target))
    stages = {stage["name"]: stage for stage in shown["stages"]}
    assert told["digest"] == stages["rl"]["outputs"]["model"]["digest"]
    assert set(told["files"]) == {path.name for path in target.iterdir()} >= {"README.md", "model.safetensors"}
    assert list(target.parent.iterdir()) == [target]

    policy = load_policy(stages["rl"]["outputs"]["model"]["uri"], backend="native")
    hosted, tokenizer = AutoModelForCausalLM.from_pretrained(target), AutoTokenizer.from_pretrained(target)
    tokens = tokenizer("2 + 3 = 5")["input_ids"]
    packed = Packed.from_sequences([tokens], policy.device, keep_last=True)
    with torch.inference_mode():
        theirs, ours = hosted(torch.tensor([tokens])).logits[0], policy.logits(policy.hidden(packed))
    assert torch.allclose(ours, theirs, atol=1e-4)
    ends = hosted.generation_config.eos_token_id
    assert set(policy.eos_ids) <= set(ends if isinstance(ends, list) else [ends])

    card = ModelCard.load(target / "README.md")
    assert card.data.library_name == "transformers" and {"posttrain", "rl", "grpo"} <= set(card.data.tags)
    results = {(item.metric_config, item.dataset_name): item for item in card.data.eval_results}
    assert set(results) == {("eval-rl", "spelling"), ("eval-rl", "sums")}
    low, high = results["eval-rl", "sums"].metric_args["interval"]
    assert low <= results["eval-rl", "sums"].metric_value <= high
    assert results["eval-rl", "sums"].metric_value == stages["eval-rl"]["metrics"]["pass_at_1_sums"]
    text = (target / "README.md").read_text()
    named = [shown["run_id"], told["digest"], stages["sft"]["outputs"]["model"]["digest"], "trained from scratch"]
    assert all(name in text for name in named)
    assert str(project.folder) not in text and not re.search(r"(?<![\w/])/(tmp|home|root|work|var)/", text)

    before = {path.name: path.read_bytes() for path in target.iterdir()}
    project.call("export", "latest:sft.model", str(target), code=2)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    project.call("export", "latest:rl.model", str(tmp_path / "adapter"), "--adapter", code=2)
    project.call("export", "latest:rl.metrics", str(tmp_path / "metrics"), code=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def chat(project: Project, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "chat", *arguments],
        cwd=project.folder,
        env={**os.environ, "POSTTRAIN_STORE": project.store},
        text=True,
        capture_output=True,
        timeout=LIMIT_SECONDS,
        **options,
    )


@pytest.mark.parametrize("way", ["pipe", pytest.param("option", marks=pytest.mark.slow)])
def test_chat_answers_a_prompt(way: str, finished: Finished) -> None:
    from components.modeling.generation.generate import generate
    from components.modeling.generation.sampling_config import SamplingConfig
    from components.modeling.loading.load import load_policy
    from components.modeling.text.prompting import decode_responses, encode_prompts

    project, shown = finished
    stages = {stage["name"]: stage for stage in shown["stages"]}
    policy = load_policy(stages["rl"]["outputs"]["model"]["uri"])
    prompts = encode_prompts(policy.tokenizer, ["2 + 3 ="], policy.ends)
    config = SamplingConfig(max_new_tokens=5, temperature=0.0)
    drawn = generate(policy, prompts, config, generator=torch.Generator()).responses()
    (answer,) = decode_responses(policy.tokenizer, drawn, policy.ends)

    options = ("latest:rl.model", "--temperature", "0", "--max-tokens", "5")
    if way == "pipe":
        done = chat(project, *options, input="2 + 3 =\n")
    else:
        done = chat(project, *options, "--prompt", "2 + 3 =", stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{answer}\n", "")
    empty = chat(project, *options, input="\n")
    assert (empty.returncode, empty.stderr) == (2, "posttrain: the prompt is empty\n")


@pytest.mark.parametrize("key, code", [(b"\x04", 0), pytest.param(b"\x03", 130, marks=pytest.mark.slow)])
def test_chat_in_a_terminal_ends_cleanly(finished: Finished, key: bytes, code: int) -> None:
    project, _ = finished
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "pipelines.cli", "chat", "latest:base.model", "--max-tokens", "4"]
    environment = {**os.environ, "POSTTRAIN_STORE": project.store, "TERM": "dumb"}
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command],  # so that the keys of this terminal are signals to the command
        cwd=project.folder,
        env=environment,
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    try:
        said = read_until(leader, b"> ")
        assert b"/new starts anew" in said
        os.write(leader, b"2 + 3 =\n")
        said += read_until(leader, b"\n> ")
        os.write(leader, key)
        assert process.wait(LIMIT_SECONDS) == code
    finally:
        process.kill()
        os.close(leader)
    assert b"Traceback" not in said


def read_until(descriptor: int, mark: bytes) -> bytes:
    """Read what a terminal shows up to a mark; `process.wait` and the test's limit end a wait for nothing."""
    said = b""
    while not said.endswith(mark):
        said += os.read(descriptor, 1024)
    return said.replace(b"\r", b"")


def test_scripts_get_ascii(finished: Finished) -> None:
    project, shown = finished
    printed = project.call("samples", shown["run_id"], "--json", "--limit", "500")
    assert printed.isascii() and len(json.loads(printed)["samples"]) > 100
