"""What a fork server has read about installed packages is not read again by its jobs, whose processes are short."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import tests.benchmarks.orchestration_stage as stage  # a plug-in: its package is none of this project's
import components.runtime.closure.preloaded
from importlib.metadata import PathDistribution
from components.runtime.closure.walk import Closures

def read_text(self, name):
    raise AssertionError(f"a job reads {name} of {self._path}")

PathDistribution.read_text = read_text
print(sorted(Closures().of(stage.__name__, "the benchmark's stage").files))
"""


def test_the_closure_of_a_plug_in_reads_no_metadata() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "tests/benchmarks/orchestration_stage.py" in done.stdout and "tests/support/counting_stage.py" in done.stdout
