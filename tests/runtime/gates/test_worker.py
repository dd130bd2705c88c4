"""The worker process: its reports, its speed, and what happens when it dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from components.contract.errors import StageFailed
from components.runtime.gates import GateProcess
from tests.runtime.gates.conftest import demonstrations, prompts, write_rows

# components.runtime.gates.page brings Great Expectations: only the worker that runs these tests imports it


def report_of(worker: GateProcess, folder: Path) -> dict[str, bytes]:
    """Check the rows in `folder` and return the files of the report."""
    worker.check("dataset", folder, "demonstrations", [], folder / "report")
    return {path.name: path.read_bytes() for path in sorted((folder / "report").iterdir())}


def test_a_report_is_two_files_that_need_nothing_else(worker, tmp_path):
    from components.runtime.gates.page import external_reference

    rows = demonstrations(20)
    rows[3]["response"] = (
        "<think>1+1=2 <script>alert('x')</script><img src=https://example.com/x.png>" + " " * 2_000_000
    )
    write_rows(tmp_path, rows)
    report = report_of(worker, tmp_path)

    assert list(report) == ["index.html", "results.json"]
    page = report["index.html"].decode()
    assert external_reference(page) is None
    assert "&lt;think&gt;1+1=2 &lt;script&gt;" in page and "<script" not in page
    assert "http" not in page.replace("src=https://example.com/x.png", "")
    assert "Data gate: dataset (demonstrations)" in page and "Success Percent" in page


@pytest.mark.parametrize(
    "tag",
    [
        '<img src="x.png">',
        "<a href='../index.html'>",
        "<link href=//cdn/x.css>",
        "<form action=x>",
        "<style>@import 'x'</style>",
    ],
)
def test_a_reference_to_anything_else_is_noticed(tag):
    from components.runtime.gates.page import external_reference

    assert external_reference(f"<html><body>{tag}</body></html>") == tag


def test_links_inside_the_page_and_text_about_links_may_stay():
    from components.runtime.gates.page import stand_alone

    page = stand_alone(
        '<html><head><link href="x"></head><body><a href="#s">see url(x) and href="y"</a></body></html>', "t"
    )
    assert '<a href="#s">see url(x) and href="y"</a>' in page


def test_the_report_has_the_same_bytes_in_every_worker_and_a_killed_worker_is_told(worker, tmp_path, monkeypatch):
    rows = demonstrations(50)
    rows[7]["verifier"] = rows[8]["domain"] = None
    write_rows(tmp_path, rows)
    first = report_of(worker, tmp_path)
    assert report_of(worker, tmp_path) == first
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    (tmp_path / "large").mkdir()
    write_rows(tmp_path / "large", prompts(50_000))

    with GateProcess() as other:
        assert report_of(other, tmp_path) == first
        process = other._process
        assert process is not None
        threading.Timer(0.2, process.kill).start()
        with pytest.raises(StageFailed, match=r"output 'dataset': its worker was killed by SIGKILL"):
            other.check("dataset", tmp_path / "large", "prompts", [], tmp_path / "report")
        assert process.poll() == -signal.SIGKILL


def test_a_worker_that_cannot_start_says_why(tmp_path, monkeypatch):
    (tmp_path / "great_expectations.py").write_text("raise ImportError('broken installation')")
    monkeypatch.setattr("components.runtime.gates.process.ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    with GateProcess() as gates, pytest.raises(StageFailed, match=r"ended with exit code 1: .*broken installation"):
        gates.check("dataset", tmp_path, "prompts", [], tmp_path / "report")


def test_a_worker_that_takes_too_long_is_given_up(tmp_path):
    with GateProcess(limit_seconds=0.01) as gates, pytest.raises(StageFailed, match="no answer within"):
        gates.check("dataset", tmp_path, "prompts", [], tmp_path / "report")


def test_nothing_is_started_where_no_gate_is_needed():
    with GateProcess(needed=False) as gates:
        assert gates._process is None


def test_the_worker_dies_with_its_parent():
    script = (
        "import os, signal; from components.runtime.gates import GateProcess\n"
        "gates = GateProcess(); gates.start(); print(gates._process.pid, flush=True)\n"
        "copy = os.dup(gates._process.stdin.fileno()); os.set_inheritable(copy, True)\n"
        "os.posix_spawn('/bin/sleep', ['sleep', '20'], os.environ)  # keeps the worker's stdin open\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    assert parent.wait() == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while _runs(worker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(worker)


def _runs(process: int) -> bool:
    """Return whether a process is there and no zombie."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.slow
def test_two_hundred_thousand_rows_take_seconds(worker, tmp_path):
    write_rows(tmp_path, prompts(200_000))
    started = time.monotonic()
    result = worker.check("dataset", tmp_path, "prompts", [], tmp_path / "report")
    assert result.success and result.statistics["rows"] == 200_000
    assert time.monotonic() - started < 60  # about 6 s on a quiet machine
