"""Jobs of several runs in one process, as in a notebook: each has its own run's variables and libraries."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from components.runtime.job.process import run_forked
from pipelines.engines.local.fork_server import JobServer
from tests.support.late_imports import tell_late_imports

ROOT = Path(__file__).parents[3]
FIRST, SECOND = "colorsys", "sndhdr"
"""Modules of the standard library that nothing else imports."""
Told = dict[str, object]


def tell(sender: Connection, environment: Mapping[str, str | None]) -> None:
    """Stand for a job: send what it found when it began."""
    sender.send(
        {
            "server": os.getppid(),
            "modules": [name for name in (FIRST, SECOND) if name in sys.modules],
            "remove": sorted(name for name, value in environment.items() if value is None),
            "import": os.environ.get("HF_HOME"),
        }
    )


def asked(server: JobServer, environment: Mapping[str, str]) -> Told:
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = server.start(tell, (sender,), environment, name="job")
    told: Told = receiver.recv()
    process.join()
    assert process.exitcode == 0
    return told


@pytest.fixture
def plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "AWS_"))}


def test_a_later_run_with_more_libraries_does_not_import_them_in_each_of_its_jobs(plain: dict[str, str]) -> None:
    server = JobServer()
    server.preload([FIRST], plain)
    light = asked(server, plain)
    assert light["modules"] == [FIRST]
    server.preload([], plain)
    assert asked(server, plain)["server"] == light["server"], "a run that needs less goes on with the same process"
    server.preload([SECOND], plain)
    heavy = asked(server, plain)
    assert heavy["modules"] == [FIRST, SECOND] and heavy["server"] != light["server"]


def test_a_job_finds_its_launcher_imported_and_collects_none_of_what_the_server_made(plain: dict[str, str]) -> None:
    """Each job imported it by itself: .2 of the .28 CPU seconds of an empty stage."""
    server = JobServer()
    server.preload([], plain)
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = server.start(tell_late_imports, (sender,), plain, name="job")
    late, frozen = receiver.recv()
    process.join()
    assert late == []
    assert frozen > 10_000, "a collection would copy the pages of all that the server has imported"


def test_variables_that_libraries_read_when_imported_get_a_fresh_server_and_others_reach_the_job(
    plain: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HOME", raising=False)
    server = JobServer()
    server.preload([], plain)
    first = asked(server, plain | {"AWS_PROFILE": "one"})
    server.preload([], plain)
    second = asked(server, plain)
    assert second["server"] == first["server"]
    assert second["remove"] == ["AWS_PROFILE"], "the server has it, and this job must not"
    server.preload([], plain | {"HF_HOME": "/elsewhere"})
    third = asked(server, plain | {"HF_HOME": "/elsewhere"})
    assert third["import"] == "/elsewhere" and third["server"] != first["server"]
    assert "HF_HOME" not in os.environ, "this process keeps its own variables"


def test_an_edited_package_gets_a_fresh_server_and_running_jobs_keep_theirs(
    plain: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "edited_here"
    package.mkdir()
    (package / "__init__.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    environment = plain | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    server = JobServer()
    server.preload(["edited_here"], environment)
    receiver, sender = multiprocessing.Pipe(duplex=False)
    waiting = server.start(wait, (receiver, sender), environment, name="old")
    first = asked(server, environment)
    (package / "__init__.py").write_text("VALUE = 2\n")
    server.preload(["edited_here"], environment)
    assert asked(server, environment)["server"] != first["server"]
    assert waiting.is_alive()
    sender.send("end")
    waiting.join()
    assert waiting.exitcode == 0


def wait(receiver: Connection, sender: Connection, environment: Mapping[str, str | None]) -> None:
    """Stand for a job that is on its way."""
    receiver.recv()


def test_a_job_has_the_variables_of_its_run_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "of the first run")
    monkeypatch.setattr("components.runtime.job.process.die_with_parent", lambda: None)
    seen: dict[str, str | None] = {}

    class Enough(Exception):
        """Ends the job before it has any effect on this process."""

    def look(text: str) -> None:
        seen.update({name: os.environ.get(name) for name in ("AWS_PROFILE", "AWS_REGION")})
        raise Enough

    monkeypatch.setattr("components.runtime.job.process.Job.model_validate_json", look)
    monkeypatch.setattr("components.runtime.job.process.signal.signal", lambda *_: None)
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setenv("AWS_REGION", "")  # so that it is put back
    with pytest.raises(Enough):
        run_forked("{}", None, str(tmp_path / "log"), {"AWS_PROFILE": None, "AWS_REGION": "north"})  # type: ignore[arg-type]
    assert seen == {"AWS_PROFILE": None, "AWS_REGION": "north"}


def test_a_script_without_a_main_guard_is_not_run_again_in_each_job(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        "print('begins', flush=True)\n"
        "from pipelines.engines.local.fork_server import JobServer\n"
        "from tests.pipelines.engines.test_fork_server import asked\n"
        "server = JobServer()\n"
        "server.preload([], os.environ)\n"
        "print(sorted(asked(server, os.environ)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()  # jobs write to the same place
    assert [lines.count("begins"), len(lines)] == [1, 2], done.stderr
