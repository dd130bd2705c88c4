"""The worked example of components/rl/methods/README.md: a method in a package of its own, installed with pip."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.rl.presets import FOLDER
from tests.methods.micro import MICRO_SIZE

ROOT = Path(__file__).parents[2]
_FILE = re.compile(r"^`([\w./-]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Shell:
    """`posttrain` in a folder outside the repository, where the package is installed."""

    def __init__(self, folder: Path, site: Path) -> None:
        self.folder = folder
        self._environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "POSTTRAIN_LINEAGE": "later"}

    def __call__(self, *arguments: str) -> Any:
        """Run one command and return its --json."""
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.cli", *arguments, "--json"],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    folder = tmp_path_factory.mktemp("third-party")
    files = dict(_FILE.findall((FOLDER / "README.md").read_text(encoding="utf-8")))
    assert sorted(Path(name).suffix for name in files) == [".py", ".toml", ".yaml", ".yaml"]
    for name, text in files.items():
        path = folder / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder / "site")]
    subprocess.run([*pip, *offline, str(folder / "project")], check=True, timeout=300)
    return Shell(folder, folder / "site")


def test_it_is_listed_beside_the_others(shell: Shell) -> None:
    found = {row["slug"]: row for row in shell("methods")}
    own = found["shrunk-baseline"]
    assert own["origin"] == "package posttrain-shrunk 1.0"
    assert (own["status"], own["recipe"]) == ("runnable", "methods/shrunk-baseline")
    assert own["slots"]["advantages"] == [{"name": "shrunk_mean", "strength": 2.0}]
    assert {"grpo", "dr-grpo"} <= set(found)


def test_what_sets_it_apart(shell: Shell) -> None:
    found = {row["place"]: row for row in shell("diff", "shrunk-baseline", "dr-grpo")["differences"]}
    assert set(found) == {"advantages", "advantages.shrunk_mean.strength"}
    assert found["advantages.shrunk_mean.strength"]["a"] == {"value": 2.0, "source": "a choice"}
    assert found["advantages.shrunk_mean.strength"]["b"] is None


def test_it_runs_and_its_code_is_in_the_fingerprint(shell: Shell) -> None:
    sizes = [text for size in MICRO_SIZE for text in ("--set", size)]
    command = ("methods/shrunk-baseline", *sizes, "--set", "matrix.arm.baseline=null", "--set", "hallmark=null")
    shown = shell("run", *command)
    assert shown["status"] == "succeeded"
    operator = shell.folder / "site" / "posttrain_shrunk" / "shrunk_mean.py"
    text = operator.read_text()
    operator.write_text(
        text.replace("A_i = R_i", "A_i  = R_i").replace("import annotations", "import annotations  # as usual")
    )
    assert all(stage["cached"] for stage in shell("plan", *command)["stages"])
    operator.write_text(text.replace("return batch.rewards - ", "return 2 * batch.rewards - "))
    planned = {stage["name"]: stage for stage in shell("plan", *command)["stages"]}
    assert {name for name, stage in planned.items() if not stage["cached"]} == {
        "rl-seed-0-arm-method",
        "evaluate-seed-0-arm-method",
    }
    assert planned["rl-seed-0-arm-method"]["reason"] == "code changed: posttrain_shrunk/shrunk_mean.py"
    again = shell("run", *command)
    assert again["status"] == "succeeded"
    before, after = (
        {stage["name"]: stage for stage in run["stages"]}["rl-seed-0-arm-method"] for run in (shown, again)
    )
    assert after["cache"] == "miss" and after["outputs"]["model"]["digest"] != before["outputs"]["model"]["digest"]
