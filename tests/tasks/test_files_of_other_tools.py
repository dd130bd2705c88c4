"""Files as TRL, verl, OpenRLHF, axolotl and LLaMA-Factory take them: by the name of the file alone, through curate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.contract.artifacts import ArtifactType
from components.curate.component import COMPONENT
from components.runtime.inputs.inputs import import_uri, uri_digest
from components.runtime.store import open_store
from components.tasks.row_kinds.labelled import labelled_of
from components.tasks.row_kinds.preferences import preference_of
from components.tasks.rows import read_rows
from pipelines.plan.advice import advice
from pipelines.plan.known import need_sound
from pipelines.recipe.recipe import load_recipe
from tests.support.stage_context import run_stage

FILES = Path(__file__).parent / "other_tools"
DEMONSTRATIONS = {"trl-sft.jsonl", "openrlhf-sft.jsonl", "axolotl-chat.jsonl", "axolotl-alpaca.jsonl"} | {
    path.name for path in FILES.glob("llamafactory-*")
}
PAIRS = {"trl-dpo.jsonl", "openrlhf-pairs.jsonl"}
SYSTEM = {"role": "system", "content": "Answer with the number of letters alone."}


def curated(name: str, folder: Path) -> list[dict[str, Any]]:
    """Return the rows that curate makes of a file; verifiability is the one line that some need."""
    params: dict[str, Any] = {
        "kind": "demonstrations" if name in DEMONSTRATIONS else "prompts",
        "shuffle": False,
        "sources": [{"source": {"name": "file", "path": str(FILES / name)}, "domain": "letters"}],
    }
    if name in PAIRS | {"trl-kto.jsonl"}:
        params |= {"verifiability": "off"}
    finished = run_stage(COMPONENT, folder / "run", params=params)
    assert finished.metrics["num_dropped"] == 0
    return read_rows(finished.outputs["dataset"])


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.iterdir()))
def test_all_twenty_rows_of_a_file_come_through(name: str, tmp_path: Path) -> None:
    rows = curated(name, tmp_path)
    assert len(rows) == 20
    assert all("kettle" in row["prompt"] for row in rows[:1])
    if name in DEMONSTRATIONS:
        assert "6" in rows[0]["response"]
    elif name in PAIRS:
        assert preference_of(rows[0]).chosen == "It has 6."
    elif name == "trl-kto.jsonl":
        assert [labelled_of(row).label for row in rows[:2]] == [True, False]
    else:
        assert (rows[0]["answer"], rows[0]["verifier"]) == ("6", "numeric")


def test_system_messages_and_history_reach_the_rows(tmp_path: Path) -> None:
    asked = {"role": "user", "content": "How many letters has the word kettle?"}
    verl = curated("verl.parquet", tmp_path / "verl")[0]
    assert verl["messages"] == [SYSTEM, asked]
    assert verl["data"]["extra_info"] == {"split": "train", "index": 0}
    history = [{"role": "user", "content": "Can you count?"}, {"role": "assistant", "content": "Yes."}]
    assert curated("llamafactory-alpaca.json", tmp_path / "alpaca")[0]["messages"] == [SYSTEM, *history, asked]


def test_validate_says_how_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(
        "name: mine\nstages:\n  rows:\n    uses: curate\n    with:\n"
        f"      sources: [{{domain: d, source: {{name: file, path: {FILES / 'verl.parquet'}}}}}]\n"
    )
    recipe = load_recipe(str(tmp_path / "recipe.yaml"))
    need_sound(recipe)
    assert any("source file: verl.parquet: verl's rows (prompt, reward_model" in note for note in advice(recipe))


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.iterdir()))
def test_a_stage_takes_the_file_itself(name: str, tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    digest = import_uri(store, str(FILES / name), ArtifactType.DATASET)
    assert uri_digest(store, str(FILES / name), ArtifactType.DATASET) == digest
    rows = read_rows(store.fetch(digest))
    assert len(rows) == 20
    given = rows[0].keys()
    assert (
        {"prompt", "response"} <= given
        or "messages" in given
        or {"prompt", "answer", "verifier"} <= given
        or ({"chosen", "rejected"} <= given or {"completion", "label"} <= given)
    )


def test_a_file_in_our_columns_is_read_byte_for_byte(tmp_path: Path) -> None:
    row = {"prompt": "2 + 2?", "response": "4", "quality": "gold", "extra": [1]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    assert read_rows(tmp_path) == [row]
