"""Datasets of the hub, asked of a server on the loopback: read where no file lies, and said in one line if not."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow
from pyarrow import parquet

from tests.support.hub_server import hub_of

ROWS = [
    {"question": "2 + 2?", "answer": "Two and two. #### 4"},
    {"question": "3 + 4?", "answer": "Three and four. #### 7"},
]
CARD = """---
configs:
- config_name: main
  data_files:
  - {split: train, path: main/train-*}
---
"""
READ = """
import json, sys
from components.contract.errors import InputError
from components.tasks.sources.jsonl import JsonlConfig, jsonl
config = JsonlConfig.model_validate(json.loads(sys.argv[1]))
try:
    found = jsonl(None, config=config)
    rows = [[row.prompt, row.answer] for row in found.rows]
    print(json.dumps({"rows": rows, "origin": found.origin}))
except InputError as error:
    print(json.dumps({"error": str(error)}))
"""


def train_file() -> bytes:
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), stream)
    return stream.getvalue()


def read(folder: Path, endpoint: str) -> tuple[list[str], dict[str, object]]:
    """Read as gsm8k does, in a process of its own; return what it said, and the rows or the error."""
    config = {
        "path": str(folder / "train.jsonl"),
        "hub": {"dataset": "openai/gsm8k", "subset": "main", "split": "train"},
        "columns": {"prompt": "question", "answer": "answer"},
        "final_answer": True,
    }
    home = {"HF_HOME": str(folder / "home"), "HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_TELEMETRY": "1"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    done = subprocess.run(
        [sys.executable, "-c", READ, json.dumps(config)],
        env={**kept, **home, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    return said, json.loads(last)


def test_the_hub_is_read_where_no_file_lies_and_a_file_is_taken_before_it(tmp_path: Path) -> None:
    with hub_of("openai/gsm8k", {"README.md": CARD.encode(), "main/train-00000.parquet": train_file()}) as (url, asked):
        said, found = read(tmp_path, url)
        assert len(said) == 1 and said[0].endswith("reading 'openai/gsm8k', split 'train', from the hub"), said
        assert found.get("rows") == [["2 + 2?", "4"], ["3 + 4?", "7"]], (found, asked)
        asked.clear()
        (tmp_path / "train.jsonl").write_text(json.dumps({"question": "5 + 5?", "answer": "#### 10"}) + "\n")
        assert read(tmp_path, url)[1]["rows"] == [["5 + 5?", "10"]]
        assert not asked


def test_a_hub_that_cannot_be_reached_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        said, found = read(tmp_path, f"http://127.0.0.1:{free.getsockname()[1]}")
    assert len(said) == 1
    error = str(found["error"])
    assert "\n" not in error and error.startswith(f"source jsonl: there is no file {tmp_path}/train.jsonl, and the hub")
    assert "put the file there, or run where the hub is reachable" in error
