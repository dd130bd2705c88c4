"""The whole recipe on the local engine: what is shown, what is cached, what a change reruns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.support.command_line import MICRO, Project, caches, digests

Finished = tuple[Project, dict[str, Any]]
AFTER_RL = {"rl", "eval-rl", "replay", "select", "evaluate"}
ROOT = Path(__file__).parents[2]


def test_a_run_shows_every_stage_with_its_outputs(finished: Finished) -> None:
    _, shown = finished
    assert shown["recipe"] == "micro"
    assert shown["status"] == "succeeded"
    assert {stage["component"] for stage in shown["stages"]} == {
        "pretrain", "curate", "sft", "rl", "replay", "select", "evaluate"
    }  # fmt: skip
    for stage in shown["stages"]:
        assert set(stage) >= {"name", "component", "status", "cache", "fingerprint", "seconds", "metrics", "outputs"}
        assert (stage["status"], stage["cache"]) == ("done", "miss")
        assert stage["outputs"], stage["name"]
        for output in stage["outputs"].values():
            assert set(output) >= {"type", "digest", "uri"}
            assert Path(output["uri"]).is_dir()


def test_a_second_run_is_all_cache_hits_with_the_same_digests(copied: Finished) -> None:
    project, shown = copied
    again = project.run()
    assert again["run_id"] != shown["run_id"]
    assert set(caches(again).values()) == {"hit"}
    assert digests(again) == digests(shown)


def test_plan_names_the_same_stages_and_says_that_all_are_cached(finished: Finished) -> None:
    project, shown = finished
    planned = project.json("plan", str(MICRO))
    assert [stage["name"] for stage in planned["stages"]] == [stage["name"] for stage in shown["stages"]]
    assert all(stage["cached"] and stage["reason"] for stage in planned["stages"])


def test_changing_an_rl_parameter_reruns_rl_and_what_depends_on_it(copied: Finished) -> None:
    project, shown = copied
    change = ("--set", "stages.rl.with.temperature=0.9")
    planned = {stage["name"]: stage for stage in project.json("plan", str(MICRO), *change)["stages"]}
    assert {name for name, stage in planned.items() if not stage["cached"]} == AFTER_RL
    assert "temperature" in planned["rl"]["reason"]
    again = project.run(*change)
    assert {name for name, cache in caches(again).items() if cache == "miss"} == AFTER_RL
    before, after = digests(shown), digests(again)
    assert all(before[name] == after[name] for name in before if name.partition(".")[0] not in AFTER_RL)
    assert before["rl.model"] != after["rl.model"]


def test_editing_rl_code_reruns_rl_onward_and_editing_the_readme_nothing(finished: Finished, tmp_path: Path) -> None:
    project, _ = finished
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    elsewhere = Project(checkout, project.store, {"PYTHONPATH": str(checkout)})

    def missing() -> dict[str, str]:
        planned = elsewhere.json("plan", str(MICRO))["stages"]
        return {stage["name"]: stage["reason"] for stage in planned if not stage["cached"]}

    assert missing() == {}
    with (checkout / "README.md").open("a") as readme:
        readme.write("\n<!-- edited -->\n")
    assert missing() == {}
    with (checkout / "components" / "rl" / "step" / "loop.py").open("a") as code:
        code.write("\n# edited: a comment reruns nothing\n")
    assert missing() == {}
    with (checkout / "components" / "rl" / "step" / "loop.py").open("a") as code:
        code.write("\nEDITED = True\n")
    found = missing()
    assert set(found) == AFTER_RL
    assert "components/rl/step/loop.py" in found["rl"]


def test_flipping_one_byte_is_told_and_the_model_is_made_anew(copied: Finished) -> None:
    project, shown = copied
    model = next(stage for stage in shown["stages"] if stage["name"] == "rl")["outputs"]["model"]
    weights = Path(project.store) / "objects" / model["digest"] / "files" / "model.safetensors"
    weights.chmod(0o644)
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    for command in (("show", shown["run_id"]), ("lineage", f"{shown['run_id']}:rl.model"), ("verify", shown["run_id"])):
        assert "model.safetensors" in project.call(*command, code=1)
    process = project.start("run", str(MICRO), "--json")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0
    assert "model.safetensors" in err and "set aside in" in err
    again = json.loads(out)
    assert {name for name, cache in caches(again).items() if cache == "miss"} == {"rl"}
    assert digests(again) == digests(shown)
    project.call("verify")


def test_a_failing_stage_shows_its_reason_and_the_run_goes_on_from_there(copied: Finished) -> None:
    project, _ = copied
    broken = ("--set", "stages.evaluate.gate=['pass_at_1 >= 1.5']")
    process = project.start("run", str(MICRO), *broken)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "gate 'pass_at_1 >= 1.5' does not hold: pass_at_1 = " in out + err


def test_the_report_is_one_file_without_external_resources(finished: Finished) -> None:
    project, shown = finished
    page = Path(project.json("report", shown["run_id"])["page"]).read_text()
    titles = ("Skills after each stage", "The run", "pass@k", "Training", "Checkpoint selection", "Data", "Lineage")
    for title in titles:
        assert f"<h2>{title}</h2>" in page
    for external in ("http://", "https://", "<script src", "<link", "@import", "url("):
        assert external not in page
    for stage in shown["stages"]:
        assert stage["name"] in page
