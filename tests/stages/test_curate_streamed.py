"""The streamed way through curate: the same rows as in memory, equal bytes after a kill, and a real shuffle."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from components.curate.component import COMPONENT
from components.curate.origins import ORIGINS
from components.curate.params import CurateParams
from components.curate.stream.shuffle import shuffled
from components.curation.similarity.key_set import KeySet
from components.tasks.rows import read_rows
from tests.support.stage_context import Finished, Interrupted, run_stage, write_jsonl

WORDS = [f"word{number}" for number in range(400)]
NEAR = {"near": {"threshold": 0.8}}


def drawn_rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return texts of which a fifth are copies and a fifth have one word of 60 changed."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        words = rng.choices(WORDS, k=60)
        if rows and rng.random() < 0.4:
            words = rng.choice(rows)["text"].split()
            if rng.random() < 0.5:
                words[rng.randrange(60)] = "changed"
        rows.append({"text": " ".join(words), "id": f"row-{number % 50}", "kind": rng.choice("ab")})
    return rows


def corpus(folder: Path, count: int = 300, **more: Any) -> dict[str, Any]:
    shares = []
    for seed in range(2):
        path = write_jsonl(folder / f"in-{seed}", drawn_rows(count, seed), name="in.jsonl") / "in.jsonl"
        columns = {"text": "text", "id": "id", "domain": "kind"}
        shares.append({"source": {"name": "jsonl", "path": str(path), "columns": columns}})
    return {"kind": "corpus", "sources": shares, "dedup": NEAR, **more}


def run(folder: Path, params: dict[str, Any], **options: Any) -> Finished:
    return run_stage(COMPONENT, folder, params=params, **options)


def card_of(finished: Finished) -> dict[str, Any]:
    return json.loads((finished.outputs["dataset"] / "card.json").read_text())


def contents(finished: Finished) -> dict[str, bytes]:
    """Return all files of the outputs, but for each row's source, which no streamed corpus keeps."""
    files = ((port, path) for port, folder in finished.outputs.items() for path in folder.rglob("*") if path.is_file())
    return {f"{port}/{path.name}": path.read_bytes() for port, path in files if path.name != ORIGINS}


def test_the_rows_are_those_of_the_way_in_memory(tmp_path: Path) -> None:
    params = corpus(tmp_path, language="on", shuffle=False)
    params["language"] = {"min_word_share": 0}
    whole = run(tmp_path / "whole", params)
    streamed = run(tmp_path / "streamed", {**params, "streamed": {"rows_per_part": 70}})
    assert read_rows(streamed.outputs["dataset"]) == read_rows(whole.outputs["dataset"])
    assert card_of(streamed) == card_of(whole)
    assert contents(streamed) == contents(whole), "in the order of the sources even the bytes are equal"
    drops = card_of(whole)["drops"]
    assert drops["duplicate"] > 50 and drops["near_duplicate"] > 50
    assert sorted(path.name for path in streamed.outputs["dataset"].iterdir()) == ["card.json", "rows.jsonl"]


@pytest.mark.parametrize("dedup", [{}, {"exact": False}, {"exact": False, **NEAR}])
def test_every_choice_of_duplicates(tmp_path: Path, dedup: dict[str, Any]) -> None:
    params = corpus(tmp_path, count=120) | {"dedup": dedup, "shuffle": False}
    whole = run(tmp_path / "whole", params)
    assert contents(run(tmp_path / "streamed", {**params, "streamed": {"rows_per_part": 50}})) == contents(whole)


def test_the_bytes_depend_on_the_seed_and_not_on_the_parts(tmp_path: Path) -> None:
    params = corpus(tmp_path)
    found = {
        size: run(tmp_path / str(size), {**params, "streamed": {"rows_per_part": size}}) for size in (53, 97, 9999)
    }
    assert len({finished.digests["dataset"] for finished in found.values()}) == 1
    other = run(tmp_path / "other", {**params, "streamed": "on"}, seed=1)
    assert other.digests["dataset"] != found[97].digests["dataset"]
    texts = [{row["text"] for row in read_rows(finished.outputs["dataset"])} for finished in (other, found[97])]
    assert texts[0] == texts[1]
    ids = [row["id"] for row in read_rows(found[97].outputs["dataset"])]
    assert len(set(ids)) == len(ids) > 100, "50 ids came many times"


@pytest.mark.parametrize("stop", [1, 4, 9, 10, 11])
def test_a_stop_after_any_checkpoint_gives_the_same_bytes(tmp_path: Path, stop: int) -> None:
    params = corpus(tmp_path, streamed={"rows_per_part": 67})  # 5 parts of each source, then the verdicts
    whole = run(tmp_path / "whole", params)
    with pytest.raises(Interrupted):
        run(tmp_path / "cut", params, stop_after=stop)
    resumed = run(tmp_path / "cut", params)
    assert resumed.digests == whole.digests
    assert resumed.metrics == whole.metrics


KILLED = """
import json, os, signal, sys
from pathlib import Path
from components.curate.component import COMPONENT
from components.curate.origins import ORIGINS
from tests.support.stage_context import LocalContext
from components.curate.run import run
folder, params, rows = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
import components.curate.stream.sift as sift
sift.PROGRESS_EVERY = 1
class Dies(LocalContext):
    def progress(self, done, total, **metrics):
        if done == rows:
            os.kill(os.getpid(), signal.SIGKILL)
run(Dies(COMPONENT, folder, params=params))
"""


def test_a_kill_in_the_middle_of_a_part_gives_the_same_bytes(tmp_path: Path) -> None:
    params = corpus(tmp_path, streamed={"rows_per_part": 100})
    whole = run(tmp_path / "whole", params)
    command = [sys.executable, "-c", KILLED, str(tmp_path / "cut"), json.dumps(params)]
    for rows in (250, 450):  # the second attempt begins at row 200 and is killed again
        killed = subprocess.run([*command, str(rows)], env=os.environ, capture_output=True, text=True, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(list((tmp_path / "cut" / "partial").iterdir())) == 4, "parts of 100 rows, before row 450"
    assert run(tmp_path / "cut", params).digests == whole.digests


def test_leaks_bad_rows_and_prompts_are_counted_alike(tmp_path: Path) -> None:
    rows = [*drawn_rows(40), {"text": 7}, {"text": ""}, {"text": "the secret question is here"}]
    path = write_jsonl(tmp_path / "in", rows, name="in.jsonl") / "in.jsonl"
    source = {"name": "jsonl", "path": str(path), "columns": {"text": "text"}, "bad_rows": "drop"}
    prompts = write_jsonl(tmp_path / "asked", [{"prompt": "1 + 1?", "answer": "2"}], name="in.jsonl") / "in.jsonl"
    asked = {"name": "jsonl", "path": str(prompts)}
    params = {
        "kind": "corpus",
        "sources": [{"source": source, "domain": "w"}, {"source": asked, "domain": "q"}],
        "shuffle": False,
    }
    held = write_jsonl(tmp_path / "held", [{"prompt": "the secret question is", "id": "h"}])
    inputs = {"against": held}
    whole = run(tmp_path / "whole", params, inputs=inputs)
    streamed = run(tmp_path / "streamed", {**params, "streamed": {"rows_per_part": 7}}, inputs=inputs)
    assert contents(streamed) == contents(whole)
    card = card_of(streamed)
    assert card["drops"]["contaminated"] == 1 and card["drops"]["bad_row"] == 1
    assert card["num_drawn"] == card["num_rows"] + sum(card["drops"].values()) == 44


def test_a_source_without_rows(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("")
    source = {"name": "jsonl", "path": str(tmp_path / "in.jsonl"), "columns": {"text": "text"}}
    params = {"kind": "corpus", "sources": [{"source": source, "domain": "w"}], "streamed": "on"}
    assert run(tmp_path / "run", params).metrics["num_rows"] == 0
    with pytest.raises(Interrupted):
        run(tmp_path / "cut", params, stop_after=1)
    assert run(tmp_path / "cut", params).metrics["num_rows"] == 0


def test_every_order_is_equally_likely(tmp_path: Path) -> None:
    lines = [b"a\n", b"b\n", b"c\n"]
    counts = Counter(b"".join(shuffled(lines, tmp_path, buckets=2, seed=seed)) for seed in range(3000))
    assert len(counts) == 6
    chi_squared = sum((count - 500) ** 2 / 500 for count in counts.values())
    assert chi_squared < 20.5, "the 99.9 % point of 5 degrees of freedom"


def test_a_set_of_keys_is_a_set() -> None:
    rng = random.Random(0)
    keys, expected = KeySet(), set()
    for _ in range(20_000):
        key = rng.choice([0, 1, (1 << 64) - 1, rng.getrandbits(12), rng.getrandbits(64)])
        assert (key in keys) == (key in expected)
        if rng.random() < 0.7:
            keys.add(key)
            expected.add(key)
    assert len(keys) == len(expected)
    assert all(key in keys for key in expected)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"kind": "prompts"}, "streamed: prompts are not streamed"),
        ({"size": 3}, "streamed: all rows of the sources are taken"),
        ({"sources": [{"source": {"name": "artifact"}, "count": 3}]}, "streamed: all rows of the sources are taken"),
        ({"selectors": [{"name": "diversity", "count": 3}]}, "streamed: selectors see all rows at once"),
    ],
)
def test_what_cannot_be_streamed_is_refused(changed: dict[str, Any], message: str) -> None:
    params = {"kind": "corpus", "sources": [{"source": {"name": "artifact"}}], "streamed": "on", **changed}
    with pytest.raises(ValidationError, match=message):
        CurateParams.model_validate(params)
