"""A user edits the formula of an own operator in a file of its own: plan says so, and run prints the new numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.runtime.closure.packages import build_and_unpack
from tests.support.small_project import write_pyproject

SOURCE = """
from components.tasks.source import SourceConfig, SourceRow, SourceRows


class OwnConfig(SourceConfig):
    kinds: int = 5
    '''How many different prompts there are.'''


def own(request, *, config: OwnConfig):
    said = (str(i % config.kinds) for i in range(9))
    return SourceRows((SourceRow("own", prompt=f"say {word}", answer=word) for word in said), {"source": "own"})
"""
RECIPE = """
name: own
summary: Rows of an own source
stages:
  data: {uses: curate, with: {sources: [{source: own, domain: own}]}}
"""


def test_edit_plan_run(tmp_path: Path) -> None:
    """Installed editable, as who edits does; test_installs.py edits under every kind of installation."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "own_rows.py").write_text(SOURCE)
    write_pyproject(project, "own-rows", "source.own", "own_rows:own", 'py-modules = ["own_rows"]')
    (tmp_path / "own.yaml").write_text(RECIPE)
    environment = build_and_unpack(tmp_path, "editable")

    def posttrain(command: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.cli", command, "own.yaml", "--store", "store", "--json"],
            cwd=tmp_path,
            env={**environment, "POSTTRAIN_LINEAGE": "later"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["stages"][0]

    assert posttrain("run")["metrics"]["num_rows"] == 5
    assert posttrain("plan")["cached"]
    module = project / "own_rows.py"
    module.write_text(SOURCE.replace("How many different prompts there are", "Number of prompts") + "# done\\n")
    assert posttrain("plan")["cached"]
    module.write_text(SOURCE.replace("i % config.kinds", "i % (config.kinds + 2)"))
    planned = posttrain("plan")
    assert (planned["cached"], planned["reason"]) == (False, "code changed: own_rows.py")
    ran = posttrain("run")
    assert (ran["cache"], ran["metrics"]["num_rows"]) == ("miss", 7)
