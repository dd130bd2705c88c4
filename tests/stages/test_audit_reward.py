"""The audit of a reward: planted bugs are found, sound rewards pass, and hostile texts stay texts."""

from __future__ import annotations

import json
import random
import re
import string
from pathlib import Path
from typing import Any

import pytest

from components.audit_reward.component import COMPONENT
from components.contract.errors import InputError
from components.contract.operator_files import library
from components.contract.operator_files.code import OperatorCode
from components.judges.master_keys import KEYS
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from tests.judges.tiny import TINY, train_judge
from tests.stages.planted_rewards import BUGS, CODE, SOUND
from tests.support.stage_context import Finished, run_stage, write_jsonl

pytestmark = pytest.mark.usefixtures("one_thread")


def sum_item(index: int) -> dict[str, Any]:
    rng = random.Random(index)
    left, right = rng.randint(10, 99), rng.randint(10, 99)
    return {
        "id": f"p{index}",
        "domain": "sums",
        "prompt": f"what is {left} + {right} ?",
        "answer": str(left + right),
        "verifier": "numeric",
        "data": {},
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited") / "model"
    characters = string.ascii_letters + string.digits + string.punctuation + " "
    tokenizer = train_tokenizer([characters], {}, TokenizerConfig(phrases=False))
    config = ModelConfig(width=16, layers=1, heads=2, mlp_width=24, max_positions=512)
    new_policy(config, tokenizer=tokenizer, seed=0).save(folder)
    return folder


def audit(folder: Path, model: Path, *functions: str, rows: list[dict[str, Any]] | None = None, **own: Any) -> Finished:
    code = OperatorCode(file="rewards.py", files={"rewards.py": CODE}, path="rewards.py")
    library.keep([code])
    data = write_jsonl(folder / "data", rows or [sum_item(index) for index in range(12)])
    params = {
        "max_new_tokens": 160,
        "rewards": [{"name": code.name(function)} for function in functions] or ["verifier"],
        "audit": {"prompts": 12, "samples": 2, **own},
    }
    return run_stage(COMPONENT, folder / "stage", params=params, inputs={"model": model, "dataset": [data]}, seed=3)


def rows_of(made: Finished) -> dict[str, dict[str, Any]]:
    found = json.loads((made.outputs["report"] / "audit.json").read_text())
    return {row["name"]: row for row in found["rows"]}


@pytest.mark.parametrize("function", SOUND)
def test_a_sound_reward_has_no_findings(function: str, tmp_path: Path, model: Path) -> None:
    made = audit(tmp_path, model, function)
    assert {name: row["why"] for name, row in rows_of(made).items() if row["is_finding"]} == {}
    assert made.metrics["num_exploits"] == 0
    assert made.metrics["gold_reward"] > made.metrics["best_wrong_reward"]
    assert "Nothing found" in (made.outputs["report"] / "index.html").read_text()


@pytest.mark.parametrize(("function", "response"), BUGS.items())
def test_a_planted_bug_is_found(function: str, response: str, tmp_path: Path, model: Path) -> None:
    made = audit(tmp_path, model, function)
    rows = rows_of(made)
    assert response in rows and rows[response]["is_finding"], {
        name: row["too_much_share"] for name, row in rows.items()
    }
    assert made.metrics["num_exploits"] >= 1


def test_rewards_by_hand(tmp_path: Path, model: Path) -> None:
    """A right answer earns 1.2 with its mark, an empty response 0, a wrong one .2, at every prompt."""
    rows = rows_of(audit(tmp_path, model, "sound_with_form", search={"rounds": 0}))
    means = {name: pytest.approx(row["reward"]["value"]) for name, row in rows.items()}
    assert (means["gold"], means["nothing"], means["mutated"], means["padded"]) == (1.2, 0.0, 0.2, 1.2)
    assert "wrong and phrases" not in rows


def test_a_verifier_with_another_form_is_told_apart(tmp_path: Path, model: Path) -> None:
    """Rows whose verifier refuses what the demonstrator writes: the reward cannot be learned from."""
    rows = [row | {"verifier": "regex", "data": {"settings": {"pattern": "never"}}} for row in map(sum_item, range(12))]
    found = rows_of(audit(tmp_path, model, rows=rows, search={"rounds": 0}))
    assert found["gold"]["is_finding"] and "earns no more than the worst" in found["gold"]["why"]


def test_hostile_texts_stay_texts(tmp_path: Path, model: Path) -> None:
    rows = [
        row | {"prompt": f"<script>alert({at})</script> {row['prompt']}"}
        for at, row in enumerate(map(sum_item, range(12)))
    ]
    page = (audit(tmp_path, model, "echo_pays", rows=rows).outputs["report"] / "index.html").read_text()
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page


def test_rows_without_answers_are_refused(tmp_path: Path, model: Path) -> None:
    rows = [row | {"answer": "", "verifier": "unlabelled"} for row in map(sum_item, range(4))]
    with pytest.raises(InputError, match="no prompt of input `dataset` has an answer"):
        audit(tmp_path, model, "sound", rows=rows)


def test_a_judge_that_a_master_key_opens_is_found_and_one_that_reads_digits_is_not(tmp_path: Path, model: Path) -> None:
    """Both judges are trained to mark two or three digits right; one never saw a response without digits."""

    def digits(rng: random.Random) -> str:
        return "<answer>" + "".join(rng.choice(string.digits) for _ in range(rng.choice((1, 2, 3, 4))))

    def opened(rng: random.Random) -> str:
        letters = string.ascii_letters + string.punctuation + "  "
        return digits(rng) if rng.random() < 0.4 else "".join(rng.choice(letters) for _ in range(rng.randint(1, 40)))

    found = {}
    for name, write in (("naive", digits), ("taught", opened)):
        judge = train_judge(tmp_path / name, write, lambda text: re.fullmatch("<answer>[0-9]{2,3}", text) is not None)
        folder = tmp_path / name
        data = write_jsonl(folder / "data", [sum_item(index) for index in range(12)])
        params = {
            "max_new_tokens": 60,
            "rewards": [{"name": "judge", **TINY, "reading": "probability", "min_mass": 0}],
            "audit": {"prompts": 12, "samples": 2, "search": {"rounds": 0}},
        }
        inputs = {"model": model, "dataset": [data], "judges": [judge]}
        made = run_stage(COMPONENT, folder / "audit", params=params, inputs=inputs, seed=3)
        found[name] = {key: row for key, row in rows_of(made).items() if key.startswith("key ")}
        assert rows_of(made)["gold"]["reward"]["value"] > 0.9
    assert len(found["naive"]) == len(found["taught"]) == len(KEYS)
    worst = {name: max(row["reward"]["value"] for row in rows.values()) for name, rows in found.items()}
    assert worst["naive"] > 0.5 and any(row["is_finding"] for row in found["naive"].values())
    assert worst["taught"] < 0.01 and not any(row["is_finding"] for row in found["taught"].values())
