"""The house stands as pyproject.toml draws it: floors, rooms, stages that do not import one another, no circles."""

from __future__ import annotations

import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
STAGES = sorted(
    found.parent.name for found in (ROOT / "components").glob("*/component.py") if found.parent.name != "contract"
)
BELOW = {"audit_reward": ("rl",), "serve": ("evaluate",)}
"""Stages that another one stands on: an audit plays against the rewards of rl, serve measures as evaluate does."""
BELOW_STAGES = ("curation", "measure", "judges", "tasks", "modeling", "runtime", "contract", "pages")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("components", "pipelines", "dags", cache_dir=None)


def test_the_contracts_on_imports_hold() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # in-process, it disables every logger
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_module_imports_itself_by_way_of_others(graph: grimp.ImportGraph) -> None:
    found = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(found) > 500
    TopologicalSorter(found).prepare()  # a CycleError names the circle


def test_stages_import_only_the_rooms_below_them(graph: grimp.ImportGraph) -> None:
    assert len(STAGES) >= 8
    for stage in STAGES:
        own = f"components.{stage}"
        allowed = tuple(f"components.{room}" for room in (stage, *BELOW.get(stage, ()), *BELOW_STAGES))
        used = {
            target
            for module in {own, *graph.find_descendants(own)}
            for target in graph.find_modules_directly_imported_by(module)
        }
        assert [target for target in sorted(used) if not _within(target, allowed)] == []


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
