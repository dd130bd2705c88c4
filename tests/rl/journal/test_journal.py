"""The journal of a tiny loop: what a line says, that it changes nothing, and that a resume writes the same bytes."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from components.rl.batch.batch import RIGHT
from components.rl.journal.after import state_after
from components.rl.journal.journal import Journal
from components.rl.journal.lines import weights_digest
from components.rl.journal.segments import JOURNAL, JournalFolder, segment_name
from components.rl.step.experience import Experience
from components.rl.step.loop import Loop
from tests.rl.tiny_loop import loop_of, write_model

STEPS = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


def journalled(folder: Path, rollouts: Path, *, max_bytes: int = 1 << 20, **given: Any) -> Loop:
    rollouts.mkdir(exist_ok=True)
    loop = loop_of(folder, **given)
    loop.journal = Journal(rollouts, STEPS, lambda: state_after(loop), max_bytes=max_bytes)
    return loop


def files(rollouts: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((rollouts / JOURNAL).iterdir())}


def test_a_line_says_what_was_drawn_by_whom_and_what_it_earned(folder: Path, tmp_path: Path) -> None:
    loop = journalled(folder, tmp_path)
    seen: list[Experience] = []
    write = loop.journal
    assert write is not None

    def keep(got: Experience, step: int) -> None:
        seen.append(got)
        write(got, step)

    loop.journal = keep
    for _ in range(2):
        loop.step()
    journal = JournalFolder(tmp_path)
    assert journal.steps() == [1, 2]
    found = journal.step(2)
    assert found is not None and found.is_whole
    line, batch = found.line, seen[1].seen
    assert line["prompts"] == [prompt.item.id for prompt in batch.prompts]
    assert line["groups"] == [4, 4, 4, 4]
    assert line["drawn"] == [[1, 16]]
    contents = [found.responses[name] for name in line["responses"]]
    assert [content["text"] for content in contents] == list(batch.texts)
    assert [token for content in contents for token in content["tokens"]] == batch.tokens.tolist()
    assert [letter == "r" for letter in line["outcomes"]] == (batch.outcomes == RIGHT).tolist()
    assert torch.equal(torch.tensor(line["rewards"]), batch.rewards)
    assert line["parts"] == {"verifier": line["rewards"]}
    assert line["learned"] is None
    means = seen[1].batch.response_mean(seen[1].batch.advantages)
    assert torch.equal(torch.tensor(line["advantages"]), means)


def test_training_is_the_same_with_a_journal_and_without(folder: Path, tmp_path: Path) -> None:
    plain, with_journal = loop_of(folder), journalled(folder, tmp_path)
    assert [plain.step() for _ in range(STEPS)] == [with_journal.step() for _ in range(STEPS)]
    mine, other = plain.policies.trained.state(), with_journal.policies.trained.state()
    assert all(torch.equal(mine[name], other[name]) for name in mine)
    assert torch.equal(plain.generator.get_state(), with_journal.generator.get_state())


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_resumed_stage_writes_the_same_journal(folder: Path, tmp_path: Path, at: int) -> None:
    straight = journalled(folder, tmp_path / "straight")
    for _ in range(STEPS):
        straight.step()
    resumed = journalled(folder, tmp_path / "resumed")
    for step in range(STEPS):
        if step == at:  # what a checkpoint restores is the files alone
            for path in (tmp_path / "resumed" / JOURNAL).iterdir():
                path.chmod(0o644)
            resumed.journal = Journal(tmp_path / "resumed", STEPS, lambda: state_after(resumed), max_bytes=1 << 20)
        resumed.step()
    assert files(tmp_path / "resumed") == files(tmp_path / "straight")


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_long_run_keeps_the_responses_of_some_steps_the_same_ones_after_a_resume(
    folder: Path, tmp_path: Path, at: int
) -> None:
    found = []
    for name, cut in (("straight", None), ("resumed", at)):
        loop = journalled(folder, tmp_path / name, max_bytes=2_500)
        for step in range(STEPS):
            if step == cut:
                loop.journal = Journal(tmp_path / name, STEPS, lambda loop=loop: state_after(loop), max_bytes=2_500)
            loop.step()
        found.append(files(tmp_path / name))
    assert found[0] == found[1]
    kept = [recorded.is_whole for recorded in JournalFolder(tmp_path / "straight").all()]
    assert len(kept) == STEPS and 0 < sum(kept) < STEPS
    assert sum(len(line) for text in found[0].values() for line in text.splitlines() if b'{"response"' in line) < 2_500


def test_draws_ahead_say_which_weights_drew_them_and_which_wait(folder: Path, tmp_path: Path) -> None:
    loop = journalled(folder, tmp_path, rollout={"name": "group_ahead", "max_staleness": 2})
    for _ in range(STEPS):
        loop.step()
    lines = [recorded.line for recorded in JournalFolder(tmp_path).all()]
    assert [line["drawn"] for line in lines] == [[[0, 16]], [[0, 16]], [[0, 16]], [[1, 16]]]
    assert [line["after"]["waiting"] for line in lines] == [[0, 0], [0, 1], [1], []]


def test_the_versions_of_waiting_draws_come_through_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    ahead = {"rollout": {"name": "group_ahead", "max_staleness": 2}}
    loop = journalled(folder, tmp_path, **ahead)
    loop.step()
    loop.step()
    saved = loop.ahead.state(loop.pool)
    other = loop_of(folder, **ahead)
    other.ahead.load_state(saved, other.pool)
    assert other.ahead.versions == [0, 1]
    earlier = {name: value for name, value in saved.items() if not name.endswith(":version")}
    other.ahead.load_state(earlier, other.pool)  # of a checkpoint from before versions were kept
    assert other.ahead.versions == [-1, -1]


def test_rows_that_a_filter_left_out_are_told(folder: Path, tmp_path: Path) -> None:
    loop = journalled(folder, tmp_path, group_size=2, filters=["drop_equal_rewards"])
    loop.step()
    recorded = JournalFolder(tmp_path).step(1)
    assert recorded is not None
    line = recorded.line
    assert line["learned"] is not None and len(line["learned"]) == len(line["advantages"]) < 8
    ends = [sum(line["groups"][:at]) for at in range(5)]
    groups = [line["rewards"][begin:end] for begin, end in pairwise(ends)]
    mixed = [at for at, group in enumerate(groups) if len(set(group)) > 1]
    assert sorted(line["learned"]) == [row for at in mixed for row in range(ends[at], ends[at + 1])]


def test_one_bit_of_a_weight_shows() -> None:
    weight = torch.ones(3, 2)
    before = weights_digest([("w", weight)])
    assert weights_digest([("w", weight.clone())]) == before
    changed = weight.clone()
    changed.view(torch.int32)[2, 1] += 1
    assert weights_digest([("w", changed)]) != before


def test_segments_are_at_most_64_and_hold_every_step_once() -> None:
    for num_steps in (1, 3, 60, 64, 65, 1000):
        names = [segment_name(step, num_steps) for step in range(1, num_steps + 1)]
        assert len(set(names)) <= 64
        assert names == sorted(names)
        assert names[-1].endswith(f"-{num_steps:06d}.jsonl")


def test_segments_that_are_done_are_read_only(folder: Path, tmp_path: Path) -> None:
    loop = journalled(folder, tmp_path)
    loop.step()
    loop.step()
    modes = [path.stat().st_mode & 0o222 for path in sorted((tmp_path / JOURNAL).iterdir())]
    assert modes[0] == 0 and modes[1] != 0


def test_every_line_is_json_without_nan(folder: Path, tmp_path: Path) -> None:
    loop = journalled(folder, tmp_path)
    loop.step()
    (text,) = files(tmp_path).values()
    for line in text.splitlines():
        assert isinstance(json.loads(line, parse_constant=lambda name: pytest.fail(name)), dict)
