"""Published sets by name: rows as their authors write them, read, judged and recorded with licence and commit."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet
from pydantic import ValidationError

from components.contract import uploaded
from components.contract.errors import InputError
from components.curate.component import COMPONENT
from components.tasks.item import UNLABELLED
from components.tasks.source import BadRow, SourceRequest, SourceRow
from components.tasks.sources.published import PublishedConfig, published
from components.tasks.verify import verify
from pipelines.recipe.recipe import load_recipe
from tests.support.hub_server import COMMIT, hub_of
from tests.support.stage_context import run_stage

SHIPPED = Path("pipelines/recipes/published")


def read(name: str, path: Path, **settings: Any) -> tuple[list[SourceRow], list[BadRow], dict[str, Any]]:
    config = PublishedConfig(set=name, path=str(path), **settings)
    opened = published(SourceRequest(0, 1 << 40, Path("/nowhere")), config=config)
    rows = list(opened.rows)
    good = [row for row in rows if isinstance(row, SourceRow)]
    return good, [row for row in rows if isinstance(row, BadRow)], dict(opened.origin)


def write(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("name", "file", "bad"),
    [
        ("gsm8k", "train.jsonl", 0),
        ("math", "train.jsonl", 0),
        ("dapo_math", "train.jsonl", 0),
        ("numina_math", "train.jsonl", 3),
        ("skywork_or1_math", "train.jsonl", 1),
        ("apps", "train.jsonl", 0),
        ("taco", "train.jsonl", 0),
        ("spider", "", 0),
    ],
)
def test_shipped_rows_accept_their_own_answer_and_no_other(name: str, file: str, bad: int) -> None:
    good, left, origin = read(name, SHIPPED / name / file)
    assert (len(good), len(left)) == (20 - bad, bad)
    assert origin["license"] == {"skywork_or1_math": None, "spider": "cc-by-sa-4.0"}.get(name, origin["license"])
    other = {"apps": "print('-')", "taco": "print('-')", "spider": "SELECT 'nothing'"}.get(name, "-12345")
    for row in good:
        item = row.item(name)
        assert verify(item, row.response or f"<answer>{row.answer}").right, row.where
        assert not verify(item, f"<answer>{other}").right, row.where
        assert not verify(item, "").right


def test_shipped_conversations_have_answers_and_nothing_to_verify() -> None:
    good, bad, origin = read("ultrafeedback", SHIPPED / "ultrafeedback" / "train.jsonl")
    assert len(good) == 20 and not bad and origin["license"] == "mit"
    assert all(row.verifier == UNLABELLED and row.response and (row.prompt or row.messages) for row in good)
    assert all(isinstance(row.extras["score"], float) for row in good)


def test_licence_and_revision_are_in_the_lineage_of_the_dataset(tmp_path: Path) -> None:
    files = str((SHIPPED / "gsm8k").resolve())
    source = {"name": "published", "set": "gsm8k", "path": files, "revision": "a" * 40}
    params = {"kind": "prompts", "sources": [{"domain": "gsm8k", "source": source}]}
    finished = run_stage(COMPONENT, tmp_path, params=params)
    (recorded,) = finished.manifests["dataset"].metadata["sources"]
    assert recorded == recorded | {"name": "gsm8k", "license": "mit", "revision": "a" * 40}
    card = json.loads((finished.outputs["dataset"] / "card.json").read_text())
    assert card["num_rows"] == 20 and card["sources"][0]["origin"]["license"] == "mit"


def test_a_row_of_each_set_of_problems(tmp_path: Path) -> None:
    (row,), _, _ = read("gsm8k", write(tmp_path, {"question": "2 + 2?", "answer": "Two and two.\n#### 4"}))
    assert (row.prompt, row.answer, row.response) == ("2 + 2?", "4", "Two and two.\n#### 4")
    content = (
        "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
        "$Answer (without quotes) where $Answer is the answer to the problem.\n\nWhat is $1 + 1$?\n\nIn base ten.\n\n"
        'Remember to put your answer on its own line after "Answer:".'
    )
    asked = {"prompt": [{"role": "user", "content": content}], "reward_model": {"ground_truth": "2", "style": "rule"}}
    (row,), _, _ = read("dapo_math", write(tmp_path, asked))
    assert (row.prompt, row.answer, row.response) == ("What is $1 + 1$?\n\nIn base ten.", "2", None)
    chat = {
        "chosen": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}],
        "score_chosen": 8,
    }
    (row,), _, _ = read("ultrafeedback", write(tmp_path, chat))
    assert (row.prompt, row.response, row.extras) == ("Hi", "Hello.", {"score": 8.0})


def test_tests_of_calls_are_made_with_arguments_and_those_of_runs_with_lines(tmp_path: Path) -> None:
    called = {
        "question": "Add.",
        "starter_code": "class Solution:\n    def add(self, a, b):\n",
        "solutions": json.dumps(["class Solution:\n    def add(self, a, b):\n        return a + b"]),
        "input_output": json.dumps({"fn_name": "add", "inputs": [[1, 2], [3, 4], [5, 6]], "outputs": [[3], 7, [11]]}),
    }
    fed = {
        "question": "Add.",
        "solutions": json.dumps(["print(int(input()) + int(input()))"]),
        "input_output": json.dumps({"inputs": [["1", "2"], "3\n4\n"], "outputs": [["3"], "7\n"]}),
    }
    (call, run), _, _ = read("taco", write(tmp_path, called, fed), max_tests=2)
    assert call.data["tests"] == [{"args": [1, 2], "expected": 3}, {"args": [3, 4], "expected": 7}]
    assert run.data["tests"] == [{"stdin": "1\n2", "stdout": "3"}, {"stdin": "3\n4\n", "stdout": "7\n"}]
    for row in (call, run):
        assert verify(row.item("taco"), row.response or "").right
    assert verify(call.item("taco"), "```python\ndef add(a, b):\n    return b + a\n```").right
    assert not verify(
        call.item("taco"), "```python\nclass Solution:\n    def add(self, a, b):\n        return 3\n```"
    ).right


@pytest.mark.parametrize(
    ("name", "row", "problem"),
    [
        ("gsm8k", {"question": "2?", "answer": "two"}, "no line with ####"),
        ("math", {"problem": "2?", "solution": "two"}, "no boxed answer"),
        ("math", {"problem": "2?", "solution": "\\boxed{\ud800}"}, "surrogate"),
        ("numina_math", {"problem": "p", "answer": "Proof"}, "nothing to verify"),
        ("dapo_math", {"prompt": "text", "reward_model": {"ground_truth": "2"}}, "chat messages"),
        ("dapo_math", {"prompt": 3, "reward_model": {"ground_truth": "2"}}, "chat messages"),
        ("dapo_math", {"prompt": [{"role": "user", "content": "p"}], "reward_model": 3}, "no reward_model"),
        (
            "skywork_or1_math",
            {"prompt": [{"role": "user", "content": "p"}], "reward_model": {"ground_truth": '["1", "2"]'}},
            "expected one answer",
        ),
        ("apps", {"question": "q", "solutions": "[" * 100_000, "input_output": "{}"}, "no JSON"),
        ("apps", {"question": "q", "solutions": '["x"]', "input_output": '{"inputs": [], "outputs": []}'}, "no tests"),
        ("apps", {"question": "q", "solutions": '["\\ud800"]', "input_output": "{}"}, "surrogate"),
        (
            "apps",
            {
                "question": "q",
                "solutions": '["x"]',
                "input_output": json.dumps({"fn_name": "f(): pass\nimport os", "inputs": [[1]], "outputs": [1]}),
            },
            "no name of a function",
        ),
        ("ultrafeedback", {"chosen": [{"role": "user", "content": "Hi"}]}, "does not end with an answer"),
        ("ultrafeedback", {"chosen": "Hi"}, "expected a list of messages"),
    ],
)
def test_rows_that_cannot_be_read_are_dropped_or_refused_by_place(
    name: str, row: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    path = write(tmp_path, row)
    good, (bad,), _ = read(name, path)
    assert not good and problem in bad.problem and bad.where == "rows.jsonl:1"
    with pytest.raises(InputError, match=r"^rows\.jsonl:1: "):
        read(name, path, bad_rows="refuse")


@pytest.mark.parametrize("name", ["../library", "/etc", "library/../library", "nowhere", "bad", "."])
def test_a_database_outside_of_its_folder_or_broken_is_a_bad_row(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "database" / "bad"
    folder.mkdir(parents=True)
    (folder / "bad.sqlite").write_bytes(b"no database at all" * 100)
    rows = [{"db_id": name, "question": "How many?", "query": "SELECT 1"}]
    (tmp_path / "train_spider.json").write_text(json.dumps(rows))
    good, (bad,), _ = read("spider", tmp_path)
    assert not good and bad.where == "train_spider.json:item 1"


def test_a_query_that_writes_or_never_ends_is_a_bad_row_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "database" / "d").mkdir(parents=True)
    (tmp_path / "database" / "d" / "schema.sql").write_text("CREATE TABLE t (x); INSERT INTO t VALUES (1), (2);")
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    queries = ["DELETE FROM t", endless, "SELECT x FROM t", "SELECT load_extension('x')", "SELECT x FROM t ORDER BY x"]
    rows = [{"db_id": "d", "question": "?", "query": query} for query in queries]
    (tmp_path / "train_spider.json").write_text(json.dumps(rows))
    good, bad, _ = read("spider", tmp_path)
    assert [row.data["tests"][0]["rows"] for row in good] == [[[1], [2]], [[1], [2]]]
    assert [row.data["tests"][0]["ordered"] for row in good] == [False, True]
    assert len(bad) == 3
    reversed_rows = "<answer>SELECT x FROM t ORDER BY x DESC"
    assert [verify(row.item("d"), reversed_rows).right for row in good] == [True, False]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"set": "gsm9k"}, "did you mean 'gsm8k'"),
        ({"set": "gsm8k", "split": "dev"}, "has the splits train, test"),
        ({"set": "apps", "verifier": "numeric"}, "is judged by code_tests"),
        ({"set": "spider"}, "needs its folder as `path`"),
        ({"set": "apps", "max_tests": 0}, "max_tests"),
    ],
)
def test_settings_that_do_not_fit_the_set(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises((ValidationError, InputError), match=problem):
        PublishedConfig(**settings)


def test_spiders_folder_is_sent_whole_and_read_where_it_arrives(tmp_path: Path) -> None:
    here = str(SHIPPED / "spider")
    wanted, _, about = read("spider", Path(here))
    files = PublishedConfig(set="spider", path=here).local_files()
    assert [file.name for file in files] == ["train_spider.json", "schema.sql", "schema.sql"]
    for file in files:
        target = tmp_path / file.relative_to(here)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    try:
        uploaded.use({"/elsewhere/spider": "digest"}, lambda digest: tmp_path)
        found, _, origin = read("spider", Path("/elsewhere/spider"))
    finally:
        uploaded.use({}, lambda digest: tmp_path)
    assert [(row.prompt, row.data) for row in found] == [(row.prompt, row.data) for row in wanted]
    assert origin["num_files"] == about["num_files"] == 3


@pytest.mark.parametrize("name", ["math-rl", "code-rl", "chat-sft"])
def test_the_recipes_name_sets_that_exist(name: str) -> None:
    for values in ([], ["scale=tiny"]):
        recipe = load_recipe(name, values)
        assert any("published" in json.dumps(stage.params, default=str) for stage in recipe.stages)


READ = """
import json, sys
from pathlib import Path
from components.tasks.source import SourceRequest
from components.tasks.sources.published import PublishedConfig, published
opened = published(SourceRequest(0, 9, Path("x")), config=PublishedConfig(**json.loads(sys.argv[1])))
print(json.dumps({"prompts": [row.prompt for row in opened.rows], "origin": dict(opened.origin)}))
"""


def asked_of_hub(folder: Path, endpoint: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    home = {"HF_HOME": str(folder / "home"), "HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_TELEMETRY": "1"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    return subprocess.run(
        [sys.executable, "-c", READ, json.dumps(settings)],
        env={**kept, **home, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_hub_is_read_and_its_commit_recorded(tmp_path: Path) -> None:
    rows = [{"problem": "1 + 1?", "solution": "\\boxed{2}", "level": "Level 1", "type": "Algebra"}]
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), stream)
    card = "---\nconfigs:\n- config_name: default\n  data_files:\n  - {split: train, path: data/train-*}\n---\n"
    name, files = "DigitalLearningGmbH/MATH-lighteval", {"data/train-0.parquet": stream.getvalue()}
    with hub_of(name, {"README.md": card.encode(), **files}) as (url, _):
        done = asked_of_hub(tmp_path, url, set="math")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["prompts"] == ["1 + 1?"]
    assert found["origin"] | {"revision": COMMIT, "license": "mit", "hub": name, "split": "train"} == found["origin"]
