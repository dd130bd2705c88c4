"""Help and planning stay instant: nothing heavy is imported on their path."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = (
    "torch",
    "transformers",
    "datasets",
    "mlflow",
    "pandas",
    "numpy",
    "scipy",
    "pyarrow",
    "boto3",
    "great_expectations",
    "reasoning_gym",
    "huggingface_hub",
    "rich",
    "kfp",
)
AT_HELP = ("pydantic", "yaml", "rich")
PROBE = """
import sys
from pipelines.cli import main
try:
    main(sys.argv[2:])
except SystemExit:
    pass
print([name for name in sys.argv[1].split(",") if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], (*HEAVY, *AT_HELP)),
        (["run", "--help"], (*HEAVY, *AT_HELP)),
        (["compile", "--help"], (*HEAVY, *AT_HELP)),
        (["validate", "quickstart"], HEAVY),
        (["plan", "quickstart"], HEAVY),
        (["plan", "quickstart", "--json"], HEAVY),
        (["list"], HEAVY),
        (["components", "rl"], HEAVY),
        (["operators"], HEAVY),
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_imported(arguments: list[str], absent: tuple[str, ...], tmp_path: Path) -> None:
    store = ["--store", str(tmp_path / "store")] if arguments[0] in ("plan", "list") else []
    done = subprocess.run(
        [sys.executable, "-c", PROBE, ",".join(absent), *arguments, *store], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stderr == "[]\n"
    assert done.stdout
