"""The curate stage: kinds, mixtures, checks, splits, determinism, and errors that say what to do."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from components.contract.errors import InputError
from components.curate.component import COMPONENT
from components.curate.params import CurateParams
from components.curate.run import allot
from components.runtime.ledger.fingerprint import fingerprint
from components.tasks.answers import extract_answer
from components.tasks.item import item_from_row
from components.tasks.rows import read_items, read_rows
from components.tasks.verify import verify
from tests.support.stage_context import Finished, run_stage, write_jsonl

CHAIN_SUM = {"name": "reasoning_gym", "task": "chain_sum", "config": {"min_terms": 2, "max_terms": 4, "max_digits": 1}}
SPELL = {"name": "reasoning_gym", "task": "spell_backward", "config": {"min_word_len": 3, "max_word_len": 6}}
TRACE = {"name": "chain_sum_trace", "markup": False}
GOLD = {"name": "gold", "markup": False}


def curate(folder: Path, *, inputs: dict[str, Any] | None = None, seed: int = 0, **params: Any) -> Finished:
    return run_stage(COMPONENT, folder, params=params, inputs=inputs or {}, seed=seed)


def rows_of(finished: Finished) -> list[dict[str, Any]]:
    return read_rows(finished.outputs["dataset"])


def card_of(finished: Finished) -> dict[str, Any]:
    return json.loads((finished.outputs["dataset"] / "card.json").read_text())


def jsonl_source(folder: Path, rows: list[dict[str, Any]], **settings: Any) -> dict[str, Any]:
    return {"name": "jsonl", "path": str(write_jsonl(folder, rows, name="in.jsonl") / "in.jsonl"), **settings}


def test_prompts_of_two_domains(tmp_path: Path) -> None:
    sources = [{"source": CHAIN_SUM, "domain": "A", "weight": 3}, {"source": SPELL, "domain": "B"}]
    finished = curate(tmp_path, size=40, sources=sources)
    items = read_items(finished.outputs["dataset"])
    assert Counter(item.domain for item in items) == {"A": 30, "B": 10}
    assert all(verify(item, f"<answer>{item.answer}").right for item in items)
    assert len({item.id for item in items}) == 40
    assert len({item.domain for item in items[:12]}) == 2, "rows are shuffled"
    assert finished.manifests["dataset"].metadata == {
        "kind": "prompts",
        "num_rows": 40,
        "domains": {"A": 30, "B": 10},
    }
    assert finished.metrics["num_rows"] == 40


def test_the_cold_start_of_the_testbed_is_a_declared_mixture(tmp_path: Path) -> None:
    sloppy = {"name": "chain_sum_trace", "step_error_rate": 0.5}
    finished = curate(
        tmp_path,
        kind="demonstrations",
        size=2000,
        sources=[
            {
                "source": CHAIN_SUM,
                "domain": "A",
                "weight": 0.65,
                "demonstrators": [
                    {"demonstrator": "gold", "weight": 1, "label": "direct"},
                    {"demonstrator": sloppy, "weight": 2, "label": "sloppy"},
                    {"demonstrator": "chain_sum_trace", "weight": 1, "label": "right"},
                ],
            },
            {
                "source": SPELL,
                "domain": "B",
                "weight": 0.35,
                "demonstrators": [
                    {"demonstrator": "gold", "weight": 4, "label": "gold"},
                    {"demonstrator": "wrong", "weight": 1, "label": "wrong"},
                ],
            },
        ],
    )
    rows = rows_of(finished)
    counts = Counter((row["domain"], row["quality"]) for row in rows)
    right = Counter(
        (row["domain"], row["quality"]) for row in rows if verify(item_from_row(row, "x"), row["response"]).right
    )
    assert sum(counts[key] for key in counts if key[0] == "A") == 1300
    for key, share in {("A", "direct"): 0.25, ("A", "sloppy"): 0.5, ("A", "right"): 0.25}.items():
        assert abs(counts[key] / 1300 - share) < 0.05
    assert abs(counts["B", "wrong"] / 700 - 0.2) < 0.05
    for key in (("A", "direct"), ("A", "right"), ("B", "gold")):
        assert right[key] == counts[key]
    assert right["B", "wrong"] == 0
    assert 0.1 < right["A", "sloppy"] / counts["A", "sloppy"] < 0.5
    assert card_of(finished)["qualities"] == dict(Counter(row["quality"] for row in rows))


def test_a_corpus_has_no_marks(tmp_path: Path) -> None:
    mixture = [{"demonstrator": TRACE, "weight": 4}, {"demonstrator": GOLD, "weight": 1}]
    sources = [
        {"source": CHAIN_SUM, "domain": "A", "demonstrators": mixture},
        {"source": SPELL, "domain": "B"},
    ]
    rows = rows_of(curate(tmp_path, kind="corpus", size=400, sources=sources))
    assert all(set(row) == {"id", "domain", "text"} for row in rows)
    assert not any("<" in row["text"].replace("sun -> nus", "") for row in rows)
    worked = [row for row in rows if row["domain"] == "A" and re.search(r"\n-?\d+[+-]\d+=.*\n-?\d+$", row["text"])]
    assert abs(len(worked) / 200 - 0.8) < 0.1
    for row in rows:
        if row["domain"] == "B":
            word, _, answer = row["text"].rpartition(" ")[2].partition("\n")
            assert answer == word[::-1]


def test_equal_seeds_give_equal_bytes_and_other_seeds_other_rows(tmp_path: Path) -> None:
    params = {"size": 50, "sources": [{"source": CHAIN_SUM, "domain": "A"}, {"source": SPELL, "domain": "B"}]}
    first = curate(tmp_path / "1", seed=7, **params)
    again = curate(tmp_path / "2", seed=7, **params)
    other = curate(tmp_path / "3", seed=8, **params)
    assert first.digests == again.digests
    prompts = [{row["prompt"] for row in rows_of(finished)} for finished in (first, other)]
    assert len(prompts[0] & prompts[1]) < 10


def test_a_source_with_its_own_seed_does_not_move_with_the_run(tmp_path: Path) -> None:
    source = {**SPELL, "seed": 1234}
    one = curate(tmp_path / "1", seed=7, size=30, sources=[{"source": source, "domain": "B"}])
    two = curate(tmp_path / "2", seed=8, size=30, sources=[{"source": source, "domain": "B"}])
    assert {row["id"] for row in rows_of(one)} == {row["id"] for row in rows_of(two)}


def test_separate_splits_share_no_prompt_though_the_task_is_small(tmp_path: Path) -> None:
    small = {"name": "reasoning_gym", "task": "chain_sum", "config": {"min_terms": 2, "max_terms": 2, "max_digits": 1}}
    sources = [{"source": small, "domain": "A"}]
    train = curate(tmp_path / "train", size=150, split=[0, 0.8], seed=1, sources=sources)
    heldout = curate(tmp_path / "heldout", size=25, split=[0.8, 1], seed=2, sources=sources)
    prompts = [{row["prompt"] for row in rows_of(finished)} for finished in (train, heldout)]
    assert len(prompts[0]) >= 140
    assert not prompts[0] & prompts[1]


def test_a_source_that_runs_dry_is_reported_and_ends(tmp_path: Path) -> None:
    """There are 200 sums of two digits, so 300 different ones cannot be had."""
    small = {"name": "reasoning_gym", "task": "chain_sum", "config": {"min_terms": 2, "max_terms": 2, "max_digits": 1}}
    finished = curate(tmp_path, size=300, sources=[{"source": small, "domain": "A"}])
    assert finished.metrics["num_rows"] == 200
    assert finished.metrics["num_missing"] == 100


def test_leaks_of_evaluation_sets_are_dropped(tmp_path: Path) -> None:
    heldout = curate(tmp_path / "heldout", size=40, sources=[{"source": SPELL, "domain": "B"}])
    train = curate(
        tmp_path / "train",
        size=500,
        sources=[{"source": {**SPELL, "seed": 0}, "domain": "B"}],
        inputs={"against": [heldout.outputs["dataset"]]},
    )
    assert not {row["prompt"] for row in rows_of(heldout)} & {row["prompt"] for row in rows_of(train)}
    assert train.metrics["dropped_contaminated"] >= 40, "both begin with the same stretch"


def test_unverifiable_rows_are_dropped_by_reason(tmp_path: Path) -> None:
    rows = [
        {"prompt": "good", "answer": "12"},
        {"prompt": "no number", "answer": "a dozen"},
        {"prompt": "anything passes", "answer": "5"},
    ]
    source = jsonl_source(tmp_path / "in", rows, verifier="numeric")
    lax = jsonl_source(tmp_path / "lax", rows[2:], verifier={"name": "numeric", "absolute_tolerance": 100})
    empty = {"name": "reasoning_gym", "task": "graph_color", "config": {"num_colors": 3}}
    sources = [
        {"source": lax, "domain": "L"},
        {"source": source, "domain": "N"},
        {"source": empty, "domain": "G", "count": 1},
    ]
    finished = curate(tmp_path / "run", sources=sources)
    assert {row["prompt"] for row in rows_of(finished)} == {"good", "anything passes"}
    drops = {name: value for name, value in finished.metrics.items() if name.startswith("dropped_")}
    assert drops["dropped_accepts_wrong"] == 1
    assert drops["dropped_verifier_failed"] == 1
    assert drops["dropped_no_reference"] > 0
    off = curate(tmp_path / "off", sources=sources[:2], verifiability=False)
    assert off.metrics["num_rows"] == 3


def test_given_responses_are_kept_or_have_to_be_right(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}", "answer": f"{n}", "response": f"so <answer>{n % 2}"} for n in range(6)]
    source = jsonl_source(tmp_path / "in", rows, columns={"response": "response"})
    sources = [{"source": source, "domain": "N"}]
    kept = curate(tmp_path / "all", kind="demonstrations", sources=sources, shuffle=False)
    assert [(row["response"], row["quality"]) for row in rows_of(kept)] == [(r["response"], "given") for r in rows]
    right = curate(tmp_path / "right", kind="demonstrations", sources=sources, verifiability={"responses": True})
    assert {row["prompt"] for row in rows_of(right)} == {"0", "1"}
    assert right.metrics["dropped_wrong_response"] == 4


def test_datasets_of_earlier_stages_can_be_joined(tmp_path: Path) -> None:
    first = curate(tmp_path / "1", size=20, sources=[{"source": CHAIN_SUM, "domain": "A"}])
    second = curate(tmp_path / "2", size=20, sources=[{"source": SPELL, "domain": "B"}])
    joined = curate(
        tmp_path / "3",
        sources=[{"source": "artifact"}],
        inputs={"dataset": [first.outputs["dataset"], second.outputs["dataset"]]},
    )
    expected = sorted(rows_of(first) + rows_of(second), key=lambda row: row["id"])
    assert sorted(rows_of(joined), key=lambda row: row["id"]) == expected


def test_card_numbers_add_up(tmp_path: Path) -> None:
    rows = [{"prompt": f"p{n % 7}", "answer": "x1" if n % 2 else "1"} for n in range(20)]
    sources = [
        {"source": jsonl_source(tmp_path / "in", rows, verifier="numeric"), "domain": "N"},
        {"source": SPELL, "domain": "B", "count": 30},
    ]
    finished = curate(tmp_path / "run", split=[0.2, 1.0], sources=sources)
    card = card_of(finished)
    assert card["num_drawn"] == card["num_rows"] + sum(card["drops"].values())
    for entry in card["sources"]:
        assert entry["drawn"] == entry["kept"] + sum(entry["drops"].values())
    assert sum(entry["kept"] for entry in card["sources"]) == card["num_rows"] == len(rows_of(finished))
    assert sum(card["domains"]["after"].values()) == card["num_rows"]
    assert sum(card["domains"]["before"].values()) == card["num_drawn"]
    for histogram in card["histograms"].values():
        assert sum(histogram["after"]) == card["num_rows"]
        assert sum(histogram["before"]) == card["num_drawn"]
        assert len(histogram["edges"]) == len(histogram["after"]) + 1
    metrics = json.loads((finished.outputs["metrics"] / "metrics.json").read_text())
    assert {name: entry["value"] for name, entry in metrics.items()} == finished.metrics
    assert metrics["num_dropped"]["value"] == sum(card["drops"].values())


def test_the_page_escapes_what_data_says_and_loads_nothing(tmp_path: Path) -> None:
    rows = [{"prompt": "<script>alert(1)</script>", "answer": "\u00e4\u00f6 & co"}]
    source = jsonl_source(tmp_path / "in", rows)
    finished = curate(tmp_path / "run", sources=[{"source": source, "domain": "<b>"}])
    page = (finished.outputs["report"] / "index.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert not re.search(r"(src|href)=|url\(|@import", page)


def test_nothing_in_nothing_out(tmp_path: Path) -> None:
    source = jsonl_source(tmp_path / "in", [])
    finished = curate(tmp_path / "run", sources=[{"source": source, "domain": "N"}])
    assert rows_of(finished) == []
    assert finished.metrics["num_rows"] == 0
    assert card_of(finished)["histograms"] == {}


def test_unicode_survives(tmp_path: Path) -> None:
    rows = [{"prompt": "\u6771\u4eac\u2028 \U0001f600 caf\u00e9", "answer": "\u4eac"}]
    finished = curate(tmp_path / "r", sources=[{"source": jsonl_source(tmp_path / "in", rows), "domain": "\u65e5"}])
    assert rows_of(finished)[0]["prompt"] == rows[0]["prompt"]
    assert rows_of(finished)[0]["domain"] == "\u65e5"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"sources": []}, "at least 1"),
        ({"sources": [{"source": "jsnl"}]}, "did you mean 'jsonl'"),
        ({"sources": [{"source": "jsonl"}]}, "path: Field required"),
        ({"sources": [{"source": {**CHAIN_SUM, "sead": 1}}]}, "sead: Extra inputs"),
        ({"sources": [{"source": CHAIN_SUM}]}, "never ends: set its `count`"),
        ({"size": 1, "split": [0.5, 0.5], "sources": [{"source": CHAIN_SUM}]}, "split: expected"),
        ({"size": 1, "sources": [{"source": CHAIN_SUM, "demonstrators": [{"demonstrator": "gold"}]}]}, "no responses"),
        ({"size": 1, "kind": "corpus", "difficulty": {}, "sources": [{"source": CHAIN_SUM}]}, "no prompts"),
        ({"size": 1, "difficulty": {"keep": [0.9, 0.1]}, "sources": [{"source": CHAIN_SUM}]}, "keep: expected"),
        ({"size": 1, "difficulty": {"buckets": [0.5, 0.2]}, "sources": [{"source": CHAIN_SUM}]}, "rising edges"),
    ],
)
def test_impossible_parameters_are_refused_before_anything_runs(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        CurateParams.model_validate(params)


def test_errors_at_run_time_say_what_to_do(tmp_path: Path) -> None:
    source = jsonl_source(tmp_path / "in", [{"prompt": "x", "answer": "y"}])
    with pytest.raises(InputError, match=r"in\.jsonl:1: no domain; set `domain`"):
        curate(tmp_path / "1", sources=[{"source": source}])
    with pytest.raises(InputError, match="no model is connected"):
        curate(tmp_path / "2", difficulty=True, sources=[{"source": source, "domain": "N"}])
    text = jsonl_source(tmp_path / "text", [{"t": "plain"}], columns={"text": "t"})
    with pytest.raises(InputError, match="use kind: corpus"):
        curate(tmp_path / "3", sources=[{"source": text, "domain": "N"}])


def test_shares_sum_to_the_size() -> None:
    def shares(size: int | None, *sources: dict[str, Any]) -> list[int | None]:
        given = [{"source": CHAIN_SUM, "count": None, **source} for source in sources]
        params = CurateParams.model_validate({"size": size if size is not None else 10**9, "sources": given})
        return allot(params.sources, size)

    assert shares(10, {"weight": 1}, {"weight": 1}, {"weight": 1}) == [4, 3, 3]
    assert shares(10, {"count": 4}, {"weight": 0.65}, {"weight": 0.35}) == [4, 4, 2]
    assert shares(None, {"count": 4}, {}) == [4, None]
    for size, weights in product(range(30), [(1, 2, 3), (0.65, 0.35), (1e-9, 1)]):
        assert sum(shares(size, *({"weight": weight} for weight in weights))) == size
    with pytest.raises(InputError, match="more than the size 3"):
        shares(3, {"count": 4})


def test_the_fingerprint_names_operators_and_files(tmp_path: Path) -> None:
    source = jsonl_source(tmp_path / "in", [{"prompt": "x", "answer": "y"}])
    share = {"source": source, "domain": "N", "demonstrators": [{"demonstrator": "gold"}]}
    params = CurateParams.model_validate({"kind": "demonstrations", "sources": [share]})
    named = {path.partition(" (")[0] for path in fingerprint(COMPONENT, params, {}, 0).parts["code"]}
    assert {"in.jsonl", "components/tasks/sources/jsonl.py", "components/tasks/demonstrators/gold.py"} <= named
    assert "components/tasks/verifiers/exact.py" in named  # the rows' verifier
    assert "components/tasks/verifiers/choice.py" not in named


def test_gold_responses_are_extracted_as_answers(tmp_path: Path) -> None:
    rows = rows_of(curate(tmp_path, kind="demonstrations", size=10, sources=[{"source": SPELL, "domain": "B"}]))
    assert all(extract_answer(row["response"]) == row["answer"] for row in rows)
