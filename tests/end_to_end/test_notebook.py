"""The notebook that comes along, in a real kernel: on the cache of the micro recipe, and from nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.command_line import MICRO, Project
from tests.support.kernel import LIMIT_SECONDS, ROOT, kernel_environment

NOTEBOOK = ROOT / "pipelines" / "client" / "first_steps.ipynb"
PARAMETERS = "parameters"
Finished = tuple[Project, dict[str, Any]]


def executed(folder: Path, store: str, **options: Any) -> dict[str, list[Any]]:
    """Execute the notebook with the micro recipe in place of its own; return source -> outputs of its cells."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    (chosen,) = [cell for cell in notebook.cells if PARAMETERS in cell.metadata.get("tags", ())]
    chosen.source = f"recipe, changes = {str(MICRO)!r}, {{}}"
    environment = kernel_environment(folder, POSTTRAIN_STORE=store)
    client = NotebookClient(
        notebook, timeout=LIMIT_SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    client.execute(env=environment)
    return {cell.source: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}


def page(outputs: list[Any]) -> str:
    """Return the one page that a cell shows."""
    (output,) = [output for output in outputs if "text/html" in output.get("data", {})]
    return str(output["data"]["text/html"])


def check(cells: dict[str, list[Any]], run_id: str, *, ran: bool) -> None:
    """Check what each cell shows."""
    by_end = {source.splitlines()[-1]: outputs for source, outputs in cells.items()}
    streams = {end: output for end, outputs in by_end.items() for output in outputs if output.output_type == "stream"}
    assert [end for end in streams if not end.startswith("tokenizer.decode")] == []
    assert all("IProgress" not in output.text for output in streams.values()), "what transformers says of its loading"
    plan = page(by_end["posttrain.plan(recipe, set=changes)"])
    assert "<td>cached</td>" not in plan if ran else plan.count("<td>cached</td>") == 14
    progress = page(by_end["run = posttrain.run(recipe, set=changes)"])
    assert progress.count(f'title="{"done" if ran else "cached"}"') == 14, progress
    report = page(by_end["run"])
    assert report.startswith("<iframe") and "&lt;!doctype html&gt;" in report.lower()
    assert "eval-rl" in page(by_end["run.stages"])
    assert "pass_at_1_sums" in page(next(outputs for end, outputs in by_end.items() if end.startswith("metrics[")))
    history = page(next(outputs for end, outputs in by_end.items() if end.startswith("history[[")))
    assert "<th>reward_mean</th>" in history and history.count("<tr>") == 5
    assert "3 of" in page(by_end['run.samples("rl", limit=3)'])
    answer = next(outputs for end, outputs in by_end.items() if end.startswith("tokenizer.decode"))[-1]
    assert "2 + 3 =" in answer["data"]["text/plain"]
    lineage = page(by_end['run.lineage("rl.model")'])
    assert lineage.index(">rl<") < lineage.index(">sft<") < lineage.index(">base<")
    assert run_id in page(by_end["posttrain.runs()"])


def test_every_cell_of_the_notebook_works(copied: Finished) -> None:
    project, shown = copied
    check(executed(project.folder, project.store), shown["run_id"], ran=False)


@pytest.mark.slow
def test_it_runs_from_nothing(tmp_path: Path) -> None:
    cells = executed(tmp_path, str(tmp_path / "store"))
    check(cells, "micro-", ran=True)


def test_it_is_committed_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    assert [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")] == []
