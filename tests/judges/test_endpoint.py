"""A judge at an endpoint: its answers are kept, and what a server cannot do is one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from components.contract.endpoints import Endpoint
from components.contract.errors import InputError
from components.judges.config import PointwiseConfig
from components.judges.judge import Case, PointwiseJudge
from components.modeling.serving.endpoint import EndpointModel
from tests.judges.scripted import marked
from tests.support.model_server import ModelServer, model_server

PAIRS = [(Case("say a", "a"), "a"), (Case("say a", "a"), "Verdict: 10"), (Case("say a", "a"), "a")]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as served:
        served.write = lambda body: marked(7)(body["messages"][0]["content"])
        yield served


def opened(server: ModelServer, kept: dict[str, Any], api: str = "chat") -> EndpointModel:
    endpoint = Endpoint.model_validate({"base_url": server.url, "model": "small", "api": api, "retries": 0})
    return EndpointModel("tiny", endpoint, dict(kept), kept.__setitem__)


def test_a_stage_that_goes_on_asks_nothing_again(server: ModelServer) -> None:
    kept: dict[str, Any] = {}
    for _ in range(2):  # the second one as a killed stage that begins anew, with the answers of the store
        model = opened(server, kept)
        found = PointwiseJudge(model, PointwiseConfig()).judge(PAIRS)
        model.close()
        assert [one.value for one in found] == pytest.approx([0.7] * 3)
        assert server.num_answered == 2
    sent = next(iter(kept.values()))["request"]
    assert sent["temperature"] == 0 and sent["max_tokens"] == 256


def test_labels_are_scored_where_the_server_echoes_and_refused_in_one_line_elsewhere(server: ModelServer) -> None:
    config = PointwiseConfig.model_validate({"reading": "probability", "labels": {"7": 1, "x": 0}, "min_mass": 0})
    model = opened(server, {}, "completions")
    (found,) = PointwiseJudge(model, config).judge(PAIRS[:1])
    model.close()
    assert found.value == pytest.approx(0.5987, abs=1e-4)  # -0.1 for a digit, -0.5 else: 1 / (1 + exp(-0.4))
    model = opened(server, {})
    with pytest.raises(InputError) as refused:
        PointwiseJudge(model, config).judge(PAIRS[:1])
    model.close()
    assert "completions" in str(refused.value) and "\n" not in str(refused.value)
