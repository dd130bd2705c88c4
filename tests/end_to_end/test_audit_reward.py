"""posttrain audit-reward on a whole recipe, and a run that an audit stops."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command_line import MICRO, Project


def test_the_reward_of_a_recipe_is_audited_before_it_trains(tmp_path: Path) -> None:
    """Micro rewards any digit, so wrong answers earn as much as right ones; where it is required, the run stops."""
    project = Project(tmp_path, str(tmp_path / "store"))
    found = json.loads(project.call("audit-reward", str(MICRO), "--json", code=1))
    (audit,) = found["audits"].values()
    findings = {row["name"] for row in audit["rows"] if row["is_finding"]}
    assert "mutated" in findings and "nothing" not in findings
    table = project.call("audit-reward", str(MICRO), "--stage", "rl", code=1)
    assert "mutated   wrong" in table and "FINDING" in table
    project.call("run", str(MICRO), "--set", "stages.rl.integrity=required", code=1)
    shown = {stage["name"]: stage for stage in project.json("show", "latest")["stages"]}
    assert shown["rl-integrity"]["status"] == "failed" and "num_exploits" in shown["rl-integrity"]["error"]
    assert shown["rl"]["status"] == "blocked" and shown["sft"]["status"] == "done"
    project.call("audit-reward", str(MICRO), "--stage", "sft", code=2)
