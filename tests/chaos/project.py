"""A small project whose runs are killed and whose files are damaged; commands run in this process."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STAGES = ("first", "second", "third")
STEPS = 3
RECIPE = """
name: chaos
summary: Counts that are cut short.
stages:
  first: {{uses: chaos-count, with: {{steps: {steps}, halts: {halts}}}}}
  second:
    uses: chaos-count
    in: {{before: first.model}}
    with: {{steps: {steps}, halts: {halts}}}
    register: counted
  third: {{uses: chaos-count, in: {{before: second.model}}, with: {{steps: {steps}, halts: {halts}}}}}
"""
DRIVER = "import sys, tests.chaos.registered; from pipelines.cli import main; sys.exit(main(sys.argv[1:]))"


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str


class Project:
    """A folder with a recipe; any number of stores lie in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.halts = folder / "halts"
        self.halts.mkdir(parents=True)
        self.recipe = folder / "chaos.yaml"
        self.recipe.write_text(RECIPE.format(steps=STEPS, halts=self.halts))

    def call(self, store: str, *arguments: str) -> Answer:
        """Run one command in this process, whose fork server is warm."""
        from pipelines.cli import main

        out, err = io.StringIO(), io.StringIO()
        warnings = logging.StreamHandler(err)  # as logging does by itself where nobody else handles what it is told
        logging.getLogger().addHandler(warnings)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main([*arguments, "--store", store])
        finally:
            logging.getLogger().removeHandler(warnings)
        return Answer(code, out.getvalue(), err.getvalue())

    def run(self, store: str) -> Answer:
        """Run the recipe: the same command each time."""
        return self.call(store, "run", str(self.recipe), "--jobs", "2")

    def outputs(self, store: str, run_id: str) -> dict[str, str]:
        """Return "stage.port" -> digest as `show` tells it."""
        shown: dict[str, Any] = json.loads(self.call(store, "show", run_id, "--json").out)
        return {
            f"{stage['name']}.{port}": output["digest"]
            for stage in shown.get("stages", ())
            for port, output in stage["outputs"].items()
        }

    def kill_at(self, store: str, stage: str, step: int) -> None:
        """Start the recipe in processes of its own and SIGKILL them all when a stage has reached a step."""
        halt, reached = self.halts / f"{stage}-{step}", self.halts / "reached"
        halt.touch()
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, "run", str(self.recipe), "--store", store],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 300
        while not reached.exists() and time.monotonic() < deadline:
            assert process.poll() is None, "the run ended by itself"
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        halt.unlink()
        reached.unlink()


def copied(store: Path, target: Path) -> Path:
    """Return a copy of a store with all times, so that nothing looks changed."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(store, target)
    return target


def newest(store: Path, count: int) -> list[Path]:
    """Return the files of a directory store that were written last."""
    files = [path for path in store.rglob("*") if path.is_file() and path.relative_to(store).parts[0] != "locks"]
    return sorted(files, key=lambda path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns))[-count:]


def change(path: Path, data: bytes) -> None:
    """Write other bytes into a file in place, as a disk does that lost power or decays."""
    path.chmod(0o644)
    path.write_bytes(data)
