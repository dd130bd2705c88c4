"""The serve stage against a stand-in server: what is measured, what fails and how that is told, and what is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.contract.errors import InputError, StageFailed
from components.contract.names import load_target
from components.measure.ledger import read_ledger
from components.serve.component import COMPONENT
from tests.stages.serve.standing_in import PARAMS, Remembering, command, journal, serve, small_model, sums
from tests.support.stage_context import write_jsonl

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("served") / "model")


def test_answers_by_hand(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of six prompts are answered right each time: pass@1 is a half, of two equal samples pass@2, too."""
    made = serve(tmp_path, model, "well", monkeypatch)
    metrics = made.metrics
    assert (metrics["pass_at_1"], metrics["pass_at_1_sums"], metrics["pass_at_2_sums"]) == (0.5, 0.5, 0.5)
    assert (metrics["num_requests"], metrics["num_failed_requests"], metrics["num_failed"]) == (12, 0, 0)
    assert (metrics["mean_tokens"], metrics["entropy"]) == (
        2.0,
        pytest.approx(0.5),
    )  # two tokens of log-probability -0.5
    assert metrics["latency_p50_seconds"] <= metrics["latency_p95_seconds"] and metrics["tokens_per_second"] > 0
    written = json.loads((made.outputs["metrics"] / "metrics.json").read_text())
    assert {"value", "low", "high", "n"} <= written["pass_at_1_sums"].keys() & written["latency_p95_seconds"].keys()
    ledger = read_ledger(made.outputs["metrics"])["sums"]
    assert [(row.num_right, row.num_wrong) for row in ledger.values()] == [(2, 0), (0, 2)] * 3
    asked = journal(tmp_path)
    assert len({request["seed"] for request in asked}) == 12 and {request["max_tokens"] for request in asked} == {8}
    assert {request["messages"][0]["content"] for request in asked} == {row["prompt"] for row in sums()}
    assert "model" not in made.outputs  # the export added nothing to it


def test_the_manifest_names_the_model_that_was_served(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = serve(
        tmp_path, model, "well", monkeypatch, service="sums", cluster_cpus=7, cluster_memory_gib=27, cluster_gpus=2
    )
    text = (made.outputs["deployment"] / "inferenceservice.yaml").read_text()
    assert (
        "has not been run on a cluster" in text and "s3://BUCKET/store" in text
    )  # a folder's objects are in no bucket
    found = yaml.safe_load(text)
    assert (found["apiVersion"], found["kind"], found["metadata"]["name"]) == (
        "serving.kserve.io/v1beta1", "InferenceService", "sums"
    )  # fmt: skip
    predictor = found["spec"]["predictor"]["model"]
    digest = found["metadata"]["annotations"]["posttrain.dev/model"]
    assert predictor["storageUri"].endswith(f"/objects/{digest}/files")
    amounts = {"cpu": "7", "memory": "27Gi", "nvidia.com/gpu": "2"}
    assert predictor["resources"] == {"requests": amounts, "limits": amounts}
    assert "--tensor-parallel-size=2" in predictor["args"]


def test_failed_and_refused_requests_are_counted_and_never_wrong(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mode, reason, tries in (("fails-some", "500 out of cache", 2), ("refuses-some", "too long", 1)):
        folder = tmp_path / mode
        made = serve(folder, model, mode, monkeypatch)  # prompt p3, which would be wrong
        metrics = made.metrics
        assert metrics["pass_at_1"] == pytest.approx(3 / 5)
        assert (metrics["num_failed_requests"], metrics["num_unanswered_prompts"], metrics["num_failed"]) == (2, 1, 0)
        assert metrics["failed_request_share"] == pytest.approx(2 / 12)
        failures = json.loads((made.outputs["metrics"] / "serving.json").read_text())["failures"]
        assert [reason in why for why in failures] == [True] and sum(failures.values()) == 2
        about = [request for request in journal(folder) if " 3 " in request["messages"][0]["content"]]
        assert len(about) == 2 * tries


def test_more_failures_than_allowed_end_the_stage(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        StageFailed, match=r"^2 of 12 requests failed \(max_failed_share 0.1\), such as: 500 out of cache$"
    ):
        serve(tmp_path / "few", model, "fails-some", monkeypatch, max_failed_share=0.1)
    with pytest.raises(StageFailed, match=r"is down \(500 out of cache; 2 tries\)"):
        serve(tmp_path / "all", model, "fails-all", monkeypatch, retries=1)


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("no-logprobs", "no log-probabilities"),
        ("positive", "log-probabilities that are none"),
        ("tokens", "how many tokens"),
    ],
)
def test_answers_that_are_none_are_failures(
    mode: str, reason: str, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StageFailed, match=reason):
        serve(tmp_path, model, mode, monkeypatch)


def test_hostile_texts_are_texts(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = serve(tmp_path, model, "hostile", monkeypatch, max_new_tokens=64)
    assert made.metrics["pass_at_1"] == 0 and not (tmp_path / "pwned").exists()
    rows = [json.loads(line) for line in (made.outputs["metrics"] / "samples.jsonl").read_text().splitlines()]
    assert all("<script>" in row["response"] and row["outcome"] == "wrong" for row in rows)
    views = (made.outputs["metrics"] / "views.json").read_text()
    assert "<script>" not in views


def test_an_attempt_goes_on_with_what_was_answered(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, Any] = {}
    data = write_jsonl(tmp_path / "data", sums())
    run = load_target(COMPONENT.run, "serve")

    def attempt(mode: str, name: str) -> Remembering:
        monkeypatch.setattr("components.serve.run.command_for", command(mode, tmp_path / name))
        inputs = {"model": model, "dataset": [data]}
        context = Remembering(kept, COMPONENT, tmp_path / "stage", params={**PARAMS, "concurrency": 1}, inputs=inputs)
        run(context)
        return context

    with pytest.raises(StageFailed) as error:
        attempt("dies-after-5", "first")
    told = str(error.value)
    assert told.startswith("the server ended while it was asked: exit code 13; its last lines: CUDA error")
    assert "key [key]" in told and "\n" not in told
    assert len(kept) == 5
    context = attempt("well", "second")
    assert len((tmp_path / "second").read_text().splitlines()) == 12 - 5
    assert context.metrics["pass_at_1"] == 0.5 and context.metrics["num_requests"] == 12


def test_conversations_are_asked_turn_by_turn(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = [
        {"role": "user", "content": "what is 2 + 2 ?"},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "what is 4 + 2 ?"},
    ]
    row = {"id": "t", "domain": "talks", "messages": talk, "answer": "6", "verifier": "numeric", "data": {}}
    made = serve(tmp_path, model, "well", monkeypatch, rows=[row])
    assert made.metrics["pass_at_1"] == 1 and made.metrics["num_requests"] == 4
    asked = [[message["content"] for message in request["messages"]] for request in journal(tmp_path)]
    assert sorted(asked) == sorted([["what is 2 + 2 ?"]] * 2 + [["what is 2 + 2 ?", "4", "what is 4 + 2 ?"]] * 2)
    with pytest.raises(InputError, match="conversations, which chat completions alone take"):
        serve(tmp_path / "plain", model, "well", monkeypatch, rows=[row], api="completions")


def test_no_proxy_is_asked(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nothing listens there
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert serve(tmp_path, model, "well", monkeypatch).metrics["num_failed_requests"] == 0
    import os

    assert "no_proxy" not in os.environ and "NO_PROXY" not in os.environ


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"keep_special_tokens": ["[T]"]}, "a server leaves special tokens out"),
        ({"service": "My Service"}, "is no name of a service"),
        ({"service": "x\nkind: Pod"}, "is no name of a service"),
        ({"storage_uri": "bucket/models"}, "is no address such as s3://"),
        ({"temperature": 0, "num_samples": 2}, "num_samples must be 1"),
        ({"max_failed_share": 1}, "less than 1"),
    ],
)
def test_parameters_that_cannot_be(params: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        COMPONENT.params.model_validate(params)


def test_metrics_that_are_not_measured_are_told_before_the_run() -> None:
    params = COMPONENT.params.model_validate({"num_samples": 4, "temperature": 0.6})
    assert "log-probabilities" in str(COMPONENT.lacks(params, "entropy"))
    assert "more than the samples" in str(COMPONENT.lacks(params, "pass_at_8_sums"))
    assert COMPONENT.lacks(params, "pass_at_4_sums") is None
