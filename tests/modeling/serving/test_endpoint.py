"""Models at endpoints: what a server may do wrong, and what is asked of it how often."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest

from components.contract.endpoints import Endpoint
from components.contract.errors import InputError, StageFailed
from components.modeling.serving import client, endpoint
from components.modeling.serving.client import retry_after
from components.modeling.serving.endpoint import EndpointModel
from components.modeling.serving.models import Drawing, Likelihood, Written
from tests.support.model_server import (
    KEY,
    ModelServer,
    drips,
    flood,
    half_a_body,
    hang_up,
    hangs,
    model_server,
    says,
)

QUICK = {"max_wait_seconds": 0.01, "retries": 2, "timeout_seconds": 20}
OPEN: list[EndpointModel] = []
ONCE = Drawing(max_new_tokens=8)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("A_KEY", KEY)
    with model_server() as served:
        yield served
    while OPEN:
        OPEN.pop().close()


def opened(
    server: ModelServer, kept: dict[str, Any] | None = None, pause: Any = asyncio.sleep, **settings: Any
) -> EndpointModel:
    given = {"base_url": server.url, "model": "small", "key_env": "A_KEY", **QUICK, **settings}
    kept = {} if kept is None else kept
    OPEN.append(EndpointModel("tiny", Endpoint.model_validate(given), dict(kept), kept.__setitem__, pause=pause))
    return OPEN[-1]


def texts(rows: list[list[Written | None]]) -> list[str | None]:
    return [one and one.text for row in rows for one in row]


def test_samples_are_asked_one_by_one_with_seeds_and_the_key(server: ModelServer) -> None:
    kept: dict[str, Any] = {}
    model = opened(server, kept, generation={"top_p": 0.5, "temperature": None})
    rows = model.write(["one", "two"], Drawing(num_samples=2, max_new_tokens=8, seed=3))
    assert texts(rows) == ["answer to one"] * 2 + ["answer to two"] * 2
    bodies = [json.loads(text.partition(" ")[2]) for text in server.asked]
    assert {body["max_tokens"] for body in bodies} == {8} and {body["top_p"] for body in bodies} == {0.5}
    assert len({body["seed"] for body in bodies}) == 2 and not any("temperature" in body for body in bodies)
    assert {head["Authorization"] for head in server.headers} == {f"Bearer {KEY}"}
    assert KEY not in json.dumps(kept)


def test_nothing_is_asked_twice(server: ModelServer) -> None:
    kept: dict[str, Any] = {}
    model = opened(server, kept)
    first = model.write(["one", "one", "two"], ONCE)
    assert server.num_answered == 2
    assert model.write(["two", "one"], ONCE) == [first[2], first[0]]
    assert opened(server, kept).write(["one", "two"], ONCE) == [first[0], first[2]], "another attempt"
    assert server.num_answered == 2
    opened(server, kept, generation={"top_p": 0.9}).write(["one"], ONCE)
    assert server.num_answered == 3, "other settings are another question"


@pytest.mark.parametrize(
    "wrong",
    [
        says(429, {"error": {"message": "slow down"}}),
        says(500, b"oops"),
        says(503, {"error": "busy"}),
        half_a_body,
        hang_up,
        says(200, b'{"choices": ['),
        says(200, b"[" * 100_000),
        says(200, {"choices": []}),
        says(200, {"choices": [{"message": {"content": 7}}]}),
        says(200, ["no", "mapping"]),
        says(200, b"\xff\xfe\x00"),
    ],
    ids=["429", "500", "503", "half", "hang-up", "no-json", "deep", "no-choices", "no-text", "list", "no-utf8"],
)
def test_what_another_try_may_cure(server: ModelServer, wrong: Any) -> None:
    server.misbehave = [wrong, wrong]
    assert texts(opened(server).write(["one"], ONCE)) == ["answer to one"]
    assert server.num_requests == 3


@pytest.mark.parametrize("wrong", [half_a_body, says(200, {"choices": 1}), says(502, b"")], ids=["half", "json", "502"])
def test_a_server_that_stays_down_ends_in_one_line_and_is_left_alone(server: ModelServer, wrong: Any) -> None:
    kept: dict[str, Any] = {}
    model = opened(server, kept, concurrency=1)
    model.write(["one"], ONCE)
    server.always = wrong
    with pytest.raises(
        StageFailed, match=r"endpoint 'tiny' \(http://.* is down \(.*3 tries\).*the same command goes on"
    ):
        model.write([f"prompt {number}" for number in range(50)], ONCE)
    assert server.num_requests == 4, "one request failed for good, and the others were not sent"
    server.always = None
    assert texts(model.write(["one"], ONCE)) == ["answer to one"] and server.num_answered == 1


def test_the_answers_beside_a_failing_request_are_kept(server: ModelServer) -> None:
    kept: dict[str, Any] = {}
    server.fails_on = "two"
    with pytest.raises(StageFailed, match="500 Internal Server Error"):
        opened(server, kept, concurrency=2).write(["one", "two"], ONCE)
    assert len(kept) == 1
    server.fails_on = None
    opened(server, kept).write(["one", "two"], ONCE)
    assert server.num_answered == 2 and len(kept) == 2


def test_hanging_dripping_and_flooding_servers_are_bounded(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_BYTES", 1 << 20)
    server.misbehave = [hangs(server), drips(server)]
    with pytest.raises(StageFailed, match=r"no whole answer within 0.2 s; 2 tries"):
        opened(server, timeout_seconds=0.2, retries=1).write(["one"], ONCE)
    server.misbehave = [flood]
    with pytest.raises(StageFailed, match="its answer has more than 1 MiB; 1 try"):
        opened(server, retries=0).write(["one"], ONCE)


def test_retry_after_is_honoured_for_all_and_bounded(server: ModelServer) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    server.misbehave = [says(429, {}, Retry_After="7")]
    opened(server, pause=pause, max_wait_seconds=30).write(["one"], ONCE)
    assert len(pauses) == 1 and 7 <= pauses[0] <= 7.2
    server.misbehave = [says(503, {}, Retry_After="3600")]
    with pytest.raises(StageFailed, match="is down"):
        opened(server, pause=pause, max_wait_seconds=30).write(["two"], ONCE)
    assert len(pauses) == 1 and retry_after(formatdate(1060, usegmt=True), 1000.0) == 60.0
    assert retry_after("soon", 0.0) is None and retry_after("nan", 0.0) is None and retry_after("-3", 0.0) == 0.0


@pytest.mark.parametrize("code", [401, 403, 404, 307])
def test_what_no_try_can_cure_is_not_tried(server: ModelServer, code: int) -> None:
    server.always = says(code, {"error": {"message": f"no {KEY} here\n\x1b[31m"}}, Location="http://127.0.0.1:1/")
    with pytest.raises(InputError, match=rf"endpoint 'tiny' .* answers {code} no \[key\] here") as error:
        opened(server).write(["one"], ONCE)
    assert server.num_requests == 1 and KEY not in str(error.value) and "\x1b" not in str(error.value)


def test_a_refused_request_is_none_and_asked_once(server: ModelServer) -> None:
    kept: dict[str, Any] = {}
    server.misbehave = [says(400, {"error": {"message": "too long"}})]
    model = opened(server, kept, concurrency=1)
    assert texts(model.write(["long", "one"], ONCE)) == [None, "answer to one"]
    assert texts(opened(server, kept).write(["long"], ONCE)) == [None] and server.num_requests == 2


def test_a_server_that_refuses_everything_is_misused_and_nothing_of_that_is_kept(server: ModelServer) -> None:
    kept: dict[str, Any] = {}
    server.always = says(422, {"error": {"message": "unknown field seed"}})
    with pytest.raises(InputError, match=r"refuses every request \(422 unknown field seed\); correct its entry"):
        opened(server, kept, concurrency=1).write([str(number) for number in range(50)], ONCE)
    assert not kept and server.num_requests == 8


def test_hostile_texts_are_data(server: ModelServer) -> None:
    hostile = f'\ud800"}}] </answer> {KEY} ../../etc/passwd \x00' + "a" * 10_000
    server.write = lambda body: hostile
    kept: dict[str, Any] = {}
    ((one,),) = opened(server, kept).write(["one"], ONCE)
    assert one is not None and not one.finished and len(one.text) <= 8 * 64
    assert one.text.startswith('?"}] </answer> [key] ../../etc/passwd \x00') and one.text.encode()
    assert KEY not in json.dumps(kept)


def test_a_text_is_scored_by_the_echo(server: ModelServer) -> None:
    model = opened(server, api="completions")
    assert model.score([("ab", "12"), ("ab", ""), ("ab", "1x")]) == [
        Likelihood(pytest.approx(-0.2), 2),
        Likelihood(0.0, 0),
        Likelihood(pytest.approx(-0.6), 2),
    ]
    assert server.num_answered == 2


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {"token_logprobs": [None, -1.0], "text_offset": [0]},
        {"token_logprobs": [None, "x", -1.0], "text_offset": [0, 2, 3]},
        {"token_logprobs": [None, 5.0, -1.0], "text_offset": [0, 2, 3]},
        {"token_logprobs": [None, -1.0, -1.0], "text_offset": [3, 2, 0]},
        {"token_logprobs": [-1.0], "text_offset": [2]},
    ],
)
def test_likelihoods_that_are_none_are_refused(server: ModelServer, logprobs: Any) -> None:
    server.always = says(200, {"choices": [{"text": "ab12!", "logprobs": logprobs}]})
    with pytest.raises(StageFailed, match="is down"):
        opened(server, api="completions", retries=0).score([("ab", "12")])


def test_a_missing_key_is_named_and_an_odd_one_never_shown(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("A_KEY")
    with pytest.raises(InputError, match="needs its key in the variable A_KEY"):
        opened(server)
    monkeypatch.setenv("A_KEY", "sk-odd\nX-Other: 1")
    with pytest.raises(InputError, match="holds characters that no key has") as error:
        opened(server)
    assert "odd" not in str(error.value)
    assert server.num_requests == 0


def test_seeds_depend_on_drawing_and_sample_alone() -> None:
    assert endpoint._seed(1, 0) == endpoint._seed(1, 0) != endpoint._seed(1, 1)
    assert 0 <= endpoint._seed(2**63, 9) < 2**31
