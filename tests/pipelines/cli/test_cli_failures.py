"""Commands that fail: one line for people, JSON for scripts, never a traceback, and no blame where none is ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import PosttrainError, StoreUnavailable
from pipelines.cli import main
from tests.pipelines.cli.test_cli import TINY, run

pytestmark = pytest.mark.usefixtures("toy_catalog")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_mistakes_are_json_too_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "plan", TINY, "--json", "--set", "rl_steps=0")
    (problem,) = json.loads(out)["problems"]
    assert (code, err, problem["line"], problem["message"][:24]) == (2, "", 18, "stage 'rl', with.steps: ")
    code, out, err = run(capsys, "show", "nope", "--json")
    assert (code, err, "there are no runs" in json.loads(out)["problems"][0]["message"]) == (2, "", True)


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("methods",), ("list", "recipes"), ("list", "--json")])
def test_output_that_cannot_be_written_is_no_mistake_of_ours(arguments: tuple[str, ...], buffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.cli", *arguments],
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONUNBUFFERED": buffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (1, "posttrain: cannot write the output: No space left on device\n")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (StoreUnavailable("the bucket is away"), 1, "posttrain: the bucket is away\n"),
        (KeyboardInterrupt(), 130, "posttrain: interrupted\n"),
        (
            ZeroDivisionError("division\nby zero"),
            1,
            "posttrain: ZeroDivisionError: division by zero (this is a mistake in posttrain or its environment; "
            "POSTTRAIN_DEBUG=1 shows where)\n",
        ),
    ],
)
def test_no_error_is_a_traceback(
    error: BaseException, code: int, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("pipelines.cli.recipes.load_recipe", fail)
    assert run(capsys, "plan", TINY) == (code, "", text)


def test_developers_get_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTTRAIN_DEBUG", "1")
    with pytest.raises(PosttrainError):
        main(["plan", "nowhere"])
