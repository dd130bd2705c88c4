"""Declarations and operators are cheap to import: planning loads them all."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "numpy", "scipy", "pandas", "datasets", "pyarrow", "boto3", "reasoning_gym", "sympy")
SCRIPT = f"""
import sys
import components.curate.component
from components.contract.registry import operators
for slot in ("source", "verifier", "demonstrator"):
    for name in operators(slot).names():
        operators(slot).get(name)
print([name for name in {HEAVY!r} if name in sys.modules])
"""


def test_no_operator_of_the_tasks_imports_a_heavy_library() -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
