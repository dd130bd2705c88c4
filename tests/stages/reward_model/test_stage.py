"""Stage reward_model: learning, its folder, measures, resume, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer

from components.contract.errors import InputError
from components.contract.forking import Held
from components.contract.job import Resources
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.serving.reward_model import LocalRewardModel
from components.reward_model.component import COMPONENT, unmeasured
from components.reward_model.forking import misfits
from components.reward_model.memory import memory
from components.reward_model.params import RewardModelParams
from tests.stages.reward_model.data import inputs, labelled, pairs, stepwise
from tests.support.stage_context import Finished, Interrupted, LocalContext, run_stage, write_jsonl

PARAMS: dict[str, Any] = {
    "steps": 12,
    "batch_size": 8,
    "checkpoint_every": 3,
    "save_every": 6,
    "holdout": 0.3,
    "optimizer": {"peak_learning_rate": 0.01, "schedule": "cosine"},
}
KILLED_AT = 8


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return inputs(tmp_path_factory.mktemp("inputs"), pairs())


@pytest.fixture(scope="module")
def straight(given: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_stage(COMPONENT, tmp_path_factory.mktemp("straight"), params=PARAMS, inputs=given)


def run_on(folder: Path, rows: list[dict[str, Any]], **params: Any) -> Finished:
    return run_stage(COMPONENT, folder / "run", params=PARAMS | params, inputs=inputs(folder, rows))


def test_it_learns_and_its_measures_have_intervals(straight: Finished) -> None:
    first, last = (
        {name: sum(row[name] for row in rows) / 3 for name in ("loss", "accuracy", "margin_mean")}
        for rows in (straight.history[:3], straight.history[-3:])
    )
    assert last["loss"] < 0.9 * first["loss"] and last["accuracy"] > first["accuracy"] and last["margin_mean"] > 0.1
    values = json.loads((straight.outputs["metrics"] / "metrics.json").read_text())
    assert {name: entry["value"] for name, entry in values.items()} == pytest.approx(straight.metrics)
    assert {
        "pair_accuracy",
        "pair_accuracy_sums",
        "auroc",
        "calibration_error",
        "margin_mean",
        "brier",
    } <= values.keys()
    assert values["pair_accuracy"]["low"] <= values["pair_accuracy"]["value"] <= values["pair_accuracy"]["high"]
    views = json.loads((straight.outputs["metrics"] / "views.json").read_text())
    assert views["scores"]["tables"][0]["rows"] and views["scores"]["charts"][0]["diagonal"]
    assert straight.manifests["model"].metadata["head"] == "score"


def test_transformers_scores_texts_as_the_scorer_does(straight: Finished) -> None:
    folder = straight.outputs["model"]
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    asked = [(row["prompt"], row[side]) for row in pairs(6) for side in ("chosen", "rejected")]
    asked.append((asked[0][0], ""))
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}, {"role": "assistant", "content": text}], tokenize=False
        )
        for prompt, text in asked
    ]
    encoded = tokenizer(texts, padding=True, padding_side="right", add_special_tokens=False, return_tensors="pt")
    with torch.no_grad():
        theirs = model(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]).logits.squeeze(-1)
    ours = LocalRewardModel("rm", folder, device="cpu", dtype="float32").rate(asked)
    assert ours == pytest.approx(theirs.tolist(), abs=1e-5)
    assert theirs.std() > 0.1


def test_kept_checkpoints_are_reward_models(straight: Finished) -> None:
    folder = straight.outputs["checkpoints"]
    steps = json.loads((folder / "index.json").read_text())
    assert [entry["step"] for entry in steps] == [6, 12]
    last = folder / steps[-1]["path"]
    for file in straight.outputs["model"].iterdir():
        assert (last / file.name).read_bytes() == file.read_bytes()


def test_a_second_run_gives_the_same_bytes_and_another_seed_does_not(
    given: dict[str, Path], straight: Finished, tmp_path: Path
) -> None:
    again = run_stage(COMPONENT, tmp_path / "again", params=PARAMS, inputs=given)
    other = run_stage(COMPONENT, tmp_path / "other", params=PARAMS, inputs=given, seed=1)
    assert again.digests == straight.digests
    assert other.digests["model"] != straight.digests["model"]


def test_the_size_of_passes_changes_no_result_beyond_rounding(
    given: dict[str, Path], straight: Finished, tmp_path: Path
) -> None:
    small = run_stage(COMPONENT, tmp_path, params={**PARAMS, "micro_batch_tokens": 64}, inputs=given)
    assert [row["loss"] for row in small.history] == pytest.approx([row["loss"] for row in straight.history], abs=1e-4)


def test_stopped_after_a_checkpoint_and_resumed_gives_the_same_bytes(
    given: dict[str, Path], straight: Finished, tmp_path: Path
) -> None:
    with pytest.raises(Interrupted):
        run_stage(COMPONENT, tmp_path, params=PARAMS, inputs=given, stop_after=6)
    resumed = run_stage(COMPONENT, tmp_path, params=PARAMS, inputs=given)
    assert resumed.digests == straight.digests
    assert resumed.history == straight.history


class KilledContext(LocalContext):
    """Kills its own process when a step between two checkpoints is logged."""

    def log(self, step: int, **metrics: float) -> None:
        if step == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        super().log(step, **metrics)


def run_killed(folder: str, given: str) -> None:
    """Entry of the process that is killed."""
    from components.reward_model.run import run

    torch.set_num_threads(1)
    paths = {port: Path(path) for port, path in json.loads(given).items()}
    run(KilledContext(COMPONENT, Path(folder), params=PARAMS, inputs=paths))


def test_killed_for_real_and_resumed_gives_the_same_bytes(
    given: dict[str, Path], straight: Finished, tmp_path: Path
) -> None:
    paths = json.dumps({port: str(path) for port, path in given.items()})
    code = f"from tests.stages.reward_model.test_stage import run_killed; run_killed({str(tmp_path)!r}, {paths!r})"
    root = Path(__file__).parents[3]
    child = subprocess.run([sys.executable, "-c", code], cwd=root, check=False)
    assert child.returncode == -signal.SIGKILL
    assert sorted(path.name for path in (tmp_path / "partial").iterdir())[-1] == "step-00000006"
    resumed = run_stage(COMPONENT, tmp_path, params=PARAMS, inputs=given)
    assert resumed.digests == straight.digests
    assert resumed.history == straight.history


@pytest.mark.parametrize(
    ("loss", "rows", "present", "absent"),
    [
        ("gaussian_ensemble", pairs(), {"pair_accuracy", "auroc"}, {"accuracy"}),
        ("pointwise", labelled(), {"pair_accuracy", "auroc", "accuracy", "brier"}, {"squared_error"}),
        (
            {"name": "pointwise", "loss": "squared_error", "on": "score"},
            labelled(),
            {"squared_error"},
            {"auroc", "brier"},
        ),
        ("value", labelled(), {"auroc", "accuracy"}, {"squared_error"}),
        ("stepwise", stepwise(), {"auroc", "accuracy", "calibration_error"}, {"pair_accuracy"}),
        ("progress_sum", stepwise(), {"squared_error", "auroc"}, {"accuracy"}),
    ],
)
def test_every_loss_trains_measures_and_is_asked(
    loss: Any, rows: list[dict[str, Any]], present: set[str], absent: set[str], tmp_path: Path
) -> None:
    found = run_on(tmp_path, rows, scorer_loss=loss, steps=30, save_every=0)
    losses = [row["loss"] for row in found.history]
    assert sum(losses[-5:]) < sum(losses[:5])
    assert present <= found.metrics.keys() and not absent & found.metrics.keys()
    folder = found.outputs["model"]
    steps = found.manifests["model"].metadata["head"] == "steps"
    kind = AutoModelForTokenClassification if steps else AutoModelForSequenceClassification
    _, told = kind.from_pretrained(folder, output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"]
    asked = [("What is the sum: 1 + 1 =", "one more\n<answer>2"), ("What is the sum: 1 + 1 =", "<answer>7")]
    rated = LocalRewardModel("rm", folder, device="cpu", dtype="float32").rate(asked)
    assert all(isinstance(reward, float) for reward in rated)


def test_adapters_are_merged_and_the_head_is_trained(given: dict[str, Path], tmp_path: Path) -> None:
    found = run_stage(COMPONENT, tmp_path, params=PARAMS | {"lora": {"rank": 4}}, inputs=given)
    assert found.history[-1]["loss"] < found.history[0]["loss"]
    _, told = AutoModelForSequenceClassification.from_pretrained(found.outputs["model"], output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"]


def test_a_validation_input_is_measured_and_nothing_is_held_out(given: dict[str, Path], tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "validation", pairs(10))
    found = run_stage(COMPONENT, tmp_path / "run", params=PARAMS, inputs={**given, "validation": rows})
    assert found.metrics["num_examples"] == len(pairs()) and found.metrics["num_measured"] == 10


def test_rows_of_weight_0_are_left_out_and_long_ones_counted(tmp_path: Path) -> None:
    rows = pairs(20)
    rows[0]["weight"] = 0
    rows[1]["chosen"] = "x" * 500
    found = run_on(tmp_path, rows, holdout=0.0, max_tokens=100, steps=2)
    assert found.metrics["num_weightless"] == 1 and found.metrics["num_overlong"] == 1
    assert "pair_accuracy" not in found.metrics


def test_weights_are_those_of_repeated_rows(tmp_path: Path) -> None:
    rows = pairs(8)
    common = {"holdout": 0.0, "steps": 1, "save_every": 0, "batch_size": 8}
    weighed = run_on(
        tmp_path / "weighed", [{**row, "weight": 2 if at < 4 else 1} for at, row in enumerate(rows)], **common
    )
    repeated = run_on(tmp_path / "repeated", [*rows[:4], *rows], **{**common, "batch_size": 12})
    assert weighed.history[0]["loss"] == pytest.approx(repeated.history[0]["loss"], abs=1e-5)


@pytest.mark.parametrize("scale", [1e39, 1e-46])
def test_only_ratios_of_weights_count(scale: float, tmp_path: Path) -> None:
    """Beyond what float32 holds, too."""
    weights = [2.0, 1.0, 0.5, 1.0]
    found = [
        run_on(
            tmp_path / str(factor),
            [{**row, "weight": weight * factor} for row, weight in zip(pairs(4), weights, strict=True)],
            holdout=0.0,
            steps=2,
            save_every=0,
        )
        for factor in (1.0, scale)
    ]
    assert [row["loss"] for row in found[1].history] == pytest.approx([row["loss"] for row in found[0].history])
    assert "num_weightless" not in found[1].metrics


def test_held_out_rows_that_are_too_long_are_counted(given: dict[str, Path], tmp_path: Path) -> None:
    rows = pairs(10)
    rows[0]["chosen"] = rows[1]["rejected"] = "x" * 500
    heldout = write_jsonl(tmp_path / "some", rows)
    params = {**PARAMS, "max_tokens": 100, "steps": 1}
    some = run_stage(COMPONENT, tmp_path / "a", params=params, inputs={**given, "validation": heldout})
    assert some.metrics["num_overlong_validation"] == 2 and some.metrics["num_measured"] == 8
    none = write_jsonl(tmp_path / "none", rows[:2])
    alone = run_stage(COMPONENT, tmp_path / "b", params=params, inputs={**given, "validation": none})
    assert alone.metrics["num_overlong_validation"] == 2 and "num_measured" not in alone.metrics


def test_domains_whose_metrics_would_share_a_name_are_refused(given: dict[str, Path], tmp_path: Path) -> None:
    rows = [{**row, "domain": f"sums{'-+'[index % 2]}2"} for index, row in enumerate(pairs(6))]
    heldout = write_jsonl(tmp_path / "heldout", rows)
    with pytest.raises(InputError, match=r"domains 'sums-2' and 'sums\+2' would both be called 'sums_2'"):
        run_stage(COMPONENT, tmp_path / "run", params=PARAMS, inputs={**given, "validation": heldout})


@pytest.mark.parametrize(
    ("rows", "params", "words"),
    [
        (
            labelled(4),
            {},
            r"rows\.jsonl:1: a row of labelled, and this scorer_loss reads preferences; scorer_loss pointwise",
        ),
        (pairs(4), {"scorer_loss": "stepwise"}, r"a row of preferences, and .* scorer_loss bradley_terry reads it"),
        ([{"prompt": "a", "text": "b"}], {}, r"rows\.jsonl:1: no chosen and no rejected"),
        (
            [{"prompt": "a", "completion": "b", "score": 1}],
            {"scorer_loss": "pointwise"},
            r"rows\.jsonl:1: it has no label",
        ),
        (
            [{"prompt": "a", "completion": "b", "score": 7}],
            {"scorer_loss": {"name": "pointwise", "on": "score"}},
            r"score 7 is no probability: take `loss: squared_error`",
        ),
        (
            [{"prompt": "a", "chosen": "b", "rejected": "c", "weight": 0}],
            {"holdout": 0},
            r"no row has a weight above 0",
        ),
        (pairs(4), {"max_tokens": 3}, r"none of \d rows has at most 3 "),
    ],
)
def test_bad_rows_get_one_line(rows: list[dict[str, Any]], params: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as caught:
        run_on(tmp_path, rows, **params)
    assert "\n" not in str(caught.value)


def test_what_a_fork_may_change() -> None:
    before = RewardModelParams.model_validate(PARAMS)
    longer = before.model_copy(update={"steps": 20})
    held = Held(step=6, files=frozenset())
    assert list(misfits(before, longer, held)) == []
    other = RewardModelParams.model_validate({**PARAMS, "steps": 20, "scorer_loss": "gaussian_ensemble"})
    assert list(misfits(before, other, held)) == ["scorer_loss: the checkpoint's head was fitted to another loss"]


def test_memory_counts_both_sides_and_no_logits() -> None:
    sizes = ModelSizes.from_config(
        {
            "model_type": "llama",
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 128,
            "vocab_size": 1000,
        }
    )
    params = RewardModelParams.model_validate({"max_tokens": 512, "micro_batch_tokens": 512, "batch_size": 8})
    pair, one = (
        memory(params.model_copy(update={"scorer_loss": spec}), sizes, Resources())
        for spec in (params.scorer_loss, params.scorer_loss.model_copy(update={"name": "pointwise"}))
    )
    assert pair is not None and one is not None
    needs = {need.name: need.size for need in pair.needs}
    assert needs["logits"] == 0
    assert needs["activations"] == 2 * next(need.size for need in one.needs if need.name == "activations")
    assert memory(params, None, Resources()) is None


LOSSES: dict[str, Any] = {
    "bradley_terry": (pairs, {}),
    "bradley_terry margin": (pairs, {"margin": True}),
    "gaussian_ensemble": (pairs, {}),
    "pointwise": (labelled, {}),
    "pointwise squared": (labelled, {"loss": "squared_error"}),
    "value squared": (labelled, {"loss": "squared_error"}),
    "stepwise": (stepwise, {}),
    "progress_sum": (stepwise, {}),
}
MEASURED = ("pair_accuracy", "margin_mean", "auroc", "accuracy", "calibration_error", "brier")


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_said_to_be_unmeasured_is_what_no_run_has(name: str, tmp_path: Path) -> None:
    rows, config = LOSSES[name]
    spec = {"scorer_loss": {"name": name.split()[0], **config}, "steps": 1, "save_every": 0}
    measured = run_on(tmp_path, rows(), **spec).metrics.keys()
    params = RewardModelParams.model_validate(PARAMS | spec)
    absent = {metric for metric in (*MEASURED, "pair_accuracy_sums") if unmeasured(params, metric)}
    assert absent == {*MEASURED, "pair_accuracy_sums"} - measured


def test_metrics_of_other_rows_are_known_to_be_absent() -> None:
    steps = RewardModelParams.model_validate({"scorer_loss": "stepwise"})
    assert unmeasured(steps, "pair_accuracy_sums") == (
        "scorer_loss stepwise reads stepwise, and pair_accuracy_sums is of preferences"
    )
    assert unmeasured(steps, "auroc") is None
    assert unmeasured(RewardModelParams(), "pair_accuracy") is None
    margins = RewardModelParams.model_validate({"scorer_loss": {"name": "bradley_terry", "margin": True}})
    assert (
        unmeasured(margins, "brier") == "scores of this scorer_loss bradley_terry are no chances, which brier is about"
    )


def test_margins_are_trained_only_where_asked_for(tmp_path: Path) -> None:
    """Not the difference of UltraFeedback's grades, which run from 1 to 10."""
    rows = [{**row, "margin": None, "score_chosen": 9.0, "score_rejected": 1.0} for row in pairs(8)]
    given = {"holdout": 0.0, "steps": 1, "save_every": 0}
    plain, graded, asked = (
        run_on(tmp_path / str(number), of, **given, **({"scorer_loss": loss} if loss else {})).history[0]["loss"]
        for number, (of, loss) in enumerate(
            [
                ([{**row, "margin": None} for row in pairs(8)], None),
                (rows, None),
                (rows, {"name": "bradley_terry", "margin": True}),
            ]
        )
    )
    assert plain == graded == pytest.approx(0.69, abs=0.1) and asked > 7
