"""Several processes that check a streamed corpus: the bytes and checkpoints of one, and no process left behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError, StageFailed
from components.contract.job import Resources
from components.curate.component import COMPONENT
from components.curate.run import run as curate
from components.curate.stream import sift
from components.runtime.system.parent import children_of
from tests.stages.test_curate_shards import MIXED, given, sums
from tests.stages.test_curate_streamed import corpus
from tests.support.stage_context import Finished, Interrupted, LocalContext, write_jsonl

END_SECONDS = 60.0


def run(folder: Path, params: dict[str, Any], cores: int, **options: Any) -> Finished:
    context = LocalContext(COMPONENT, folder, params=params, **options)
    context.job = context.job.model_copy(update={"resources": Resources(cpus=cores)})
    before = set(children_of(os.getpid()))  # of other tests of this process
    try:
        curate(context)
        drawn = [done for done, _, _ in context.progress_calls[:-1]]  # the last tells the rows that were kept
        assert drawn == sorted(drawn)
    finally:
        assert set(children_of(os.getpid())) <= before, "no process outlives the stage"
    return context.finish()


@pytest.mark.parametrize("shuffle", [True, False])
def test_the_bytes_are_those_of_one_process(tmp_path: Path, shuffle: bool) -> None:
    params = corpus(tmp_path, streamed={"rows_per_part": 29}, shuffle=shuffle)
    found = [run(tmp_path / str(cores), params, cores) for cores in (1, 2, 5)]
    assert found[0].digests == found[1].digests == found[2].digests
    assert found[0].metrics == found[1].metrics == found[2].metrics


def test_demonstrators_draw_alike(tmp_path: Path) -> None:
    shares = [{**sums(tmp_path), "demonstrators": MIXED}, given(tmp_path)]
    params = {"kind": "corpus", "sources": shares, "streamed": {"rows_per_part": 7}}
    assert run(tmp_path / "3", params, 3).digests == run(tmp_path / "1", params, 1).digests


@pytest.mark.parametrize("stop", [1, 4, 10, 11])
def test_a_stop_after_any_checkpoint_gives_the_same_bytes(tmp_path: Path, stop: int) -> None:
    params = corpus(tmp_path, streamed={"rows_per_part": 67})  # 5 parts of each source, then the verdicts
    with pytest.raises(Interrupted):
        run(tmp_path / "cut", params, 3, stop_after=stop)
    assert len(list((tmp_path / "cut" / "partial").iterdir())) == stop
    whole = run(tmp_path / "whole", params, 1)
    assert run(tmp_path / "cut", params, 2).digests == whole.digests, "with another number of processes, too"


KILLED = """
import json, os, signal, sys
from pathlib import Path
from components.contract.job import Resources
from components.curate.component import COMPONENT
from components.curate.run import run
from components.runtime.system.parent import children_of
from tests.support.stage_context import LocalContext
folder, params, parts = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
class Dies(LocalContext):
    def checkpoint(self, step, write):
        super().checkpoint(step, write)
        if step == parts:
            print(*children_of(os.getpid()), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
context = Dies(COMPONENT, folder, params=params)
context.job = context.job.model_copy(update={"resources": Resources(cpus=3)})
run(context)
"""


def test_a_killed_stage_takes_its_processes_along_and_ends_in_the_same_bytes(tmp_path: Path) -> None:
    params = corpus(tmp_path, streamed={"rows_per_part": 40})
    command = [sys.executable, "-c", KILLED, str(tmp_path / "cut"), json.dumps(params)]
    for parts in (4, 9):
        killed = subprocess.run([*command, str(parts)], capture_output=True, text=True, check=False)  # their ends, too
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        processes = [int(pid) for pid in killed.stdout.split()]
        assert len(processes) == 3 and all(map(_ends, processes))
    assert run(tmp_path / "cut", params, 3).digests == run(tmp_path / "whole", params, 1).digests


def _ends(pid: int) -> bool:
    """Wait until a process has ended: it closes its pipes before that, so that being told of it is not enough."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], END_SECONDS)[0])
    finally:
        os.close(process)


def test_a_process_that_is_killed_fails_the_stage_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.getpid()

    def note(draft: Any, facts: Any) -> None:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(sift, "_note", note)
    with pytest.raises(StageFailed, match=r"a process that checked rows ended \(signal SIGKILL\)"):
        run(tmp_path, corpus(tmp_path, streamed={"rows_per_part": 40}), 2)


def test_what_is_refused_in_a_process_is_refused_in_the_same_words(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "in", [{"text": "a"}] * 30, name="in.jsonl") / "in.jsonl"
    source = {"name": "jsonl", "path": str(path), "columns": {"text": "text"}}
    params = {"kind": "corpus", "sources": [{"source": source}], "streamed": {"rows_per_part": 4}}
    with pytest.raises(InputError) as alone:
        run(tmp_path / "1", params, 1)
    with pytest.raises(InputError) as several:
        run(tmp_path / "3", params, 3)
    assert str(alone.value) == str(several.value) and "no domain" in str(alone.value)
