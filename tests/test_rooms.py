"""The house stands as pyproject.toml draws it: floors, rooms, stages that do not import one another, no circles."""

from __future__ import annotations

from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from importlinter.cli import lint_imports

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


def test_the_contracts_on_imports_hold(capsys: pytest.CaptureFixture[str]) -> None:
    broken = lint_imports(str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True)
    assert not broken, capsys.readouterr().out


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
