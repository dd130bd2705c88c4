"""Runs in a real kernel: progress in place, the stop button and the same cell again, errors, threads, variables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.project import RECIPE, STEPS
from tests.conftest import BUCKET
from tests.support.kernel import Kernel, running_kernel
from tests.support.s3_server import s3_environment

BEGIN = "import tests.chaos.registered, posttrain"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "halts").mkdir()
    (folder / "chaos.yaml").write_text(RECIPE.format(steps=STEPS, halts=folder / "halts"))
    return folder


@pytest.fixture(scope="module")
def kernel(folder: Path) -> Iterator[Kernel]:
    with running_kernel(folder, POSTTRAIN_STORE=str(folder / "store")) as kernel:
        assert kernel.run(BEGIN).error is None
        yield kernel


def test_the_stop_button_stops_a_run_and_the_same_cell_goes_on(kernel: Kernel, folder: Path) -> None:
    halt = folder / "halts" / "second-2"
    halt.touch()
    cell = "run = posttrain.run('chaos.yaml')"
    stopped = kernel.run(cell, interrupt_at=folder / "halts" / "reached")
    assert stopped.error is not None
    name, message, shown = stopped.error
    assert name == "RunInterrupted" and message.endswith(
        "is stopped; run the same code to continue; finished work is kept"
    )
    assert shown == f"RunInterrupted: {message}"
    assert "second" in stopped.html and 'title="stopped"' in stopped.html and 'title="done"' in stopped.html
    halt.unlink()
    again = kernel.run(cell)
    assert (again.error, again.streams) == (None, {}), "nothing is printed"
    assert again.html.count('title="done"') + again.html.count('title="cached"') == 3
    told = kernel.run("import json; print(json.dumps([run.id, run.status, run.history('second')['total'].tolist()]))")
    run_id, status, totals = json.loads(told.streams["stdout"])
    assert run_id in message and status == "succeeded"
    assert totals == [1.0, 3.0, 6.0], "it went on from the step at which it was stopped, and lost none"


def test_a_run_in_a_thread_beside_a_running_loop(kernel: Kernel) -> None:
    cell = (
        "import asyncio\n"
        "other = await asyncio.to_thread(posttrain.run, 'chaos.yaml', seed=5, progress=False)\n"
        "assert asyncio.get_running_loop().is_running()\n"
        "other.status"
    )
    done = kernel.run(cell)
    assert done.error is None
    assert done.shown == [{"text/plain": "'succeeded'"}]
    assert done.streams == {}


def test_the_jobs_of_a_later_run_have_the_variables_of_its_own_environment(
    kernel: Kernel, s3_endpoint: str, folder: Path
) -> None:
    """The server that forks jobs was started by a run on a folder, in an environment that knows no bucket."""
    variables = s3_environment(s3_endpoint, folder / "cache")
    done = kernel.run(
        f"import os; os.environ.update({variables!r})\n"
        f"far = posttrain.run('chaos.yaml', store='s3://{BUCKET}/from-a-notebook', progress=False)\n"
        f"for name in {list(variables)!r}: del os.environ[name]\n"
        "far.status"
    )
    assert (done.error, done.streams) == (None, {})
    assert done.shown == [{"text/plain": "'succeeded'"}]


def test_mistakes_are_messages_without_a_traceback(kernel: Kernel, folder: Path) -> None:
    (folder / "wrong.yaml").write_text("name: wrong\nstages:\n  first: {uses: chaos-cuont}\n")
    unknown = kernel.run("posttrain.run('wrong.yaml')")
    assert unknown.error is not None and unknown.error[0] == "RecipeErrors"
    assert "wrong.yaml:3:" in unknown.error[1] and "did you mean 'chaos-count'?" in unknown.error[1]
    assert unknown.error[2] == f"RecipeErrors: {unknown.error[1]}"
    assert unknown.streams == {}
    for cell, name in (
        ("posttrain.Run('nothing')", "InputError"),
        ("posttrain.Run().metrics('thrid')", "UnknownName"),
        ("posttrain.Run().model('third.model')", "InputError"),
        ("posttrain.run('chaos.yaml', jobs=0)", "InputError"),
        ("posttrain.run('chaos.yaml', set={'seed': {1}})", "InputError"),
        ("posttrain.run('chaos.yaml', engine='nowhere')", "UnknownName"),
    ):
        error = kernel.run(cell).error
        assert error is not None and error[0] == name, cell
        assert error[2] == f"{name}: {error[1]}" and "\n" not in error[2], cell


def test_a_failed_stage_raises_with_its_run(kernel: Kernel, folder: Path) -> None:
    done = kernel.run(
        "try:\n"
        "    posttrain.run('chaos.yaml', set={'stages.third.gate': 'total > 1000'}, seed=9, progress=False)\n"
        "except posttrain.RunFailed as error:\n"
        "    print(type(error.run).__name__, error.run.status, list(error.failures))\n"
        "    print(str(error).splitlines()[-1])\n"
    )
    assert done.error is None
    assert done.streams["stdout"].splitlines() == [
        "Run failed ['third']",
        "fix the recipe or its data, then run the same code: finished stages are reused",
    ]
