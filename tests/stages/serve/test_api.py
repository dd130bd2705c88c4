"""Our server over transformers: what it draws against the native sampler and by hand, and what clients may send it."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from aiohttp.test_utils import TestClient, TestServer

from components.modeling.generation.sampler import NativeSampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.exporting import write_exported
from components.modeling.loading.load import load_policy
from components.modeling.models.folder import load_tokenizer
from components.modeling.text.prompting import decode_responses, encode_prompts
from components.serve.asking import read_answer
from components.serve.server.app import Batches, make_app
from components.serve.server.drawing import Drawer, Wanted
from tests.modeling.chat_models import LAYOUTS, save_model
from tests.stages.serve.standing_in import small_model

pytestmark = pytest.mark.usefixtures("one_thread")
KEY = {"Authorization": "Bearer the-key"}
PROMPTS = ["what is 1 + 2 ?", "x", "a longer one, so that the rows of the batch differ in length"]


@pytest.fixture(scope="module", params=["small", "qwen2.5-base"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, target = (tmp_path_factory.mktemp("api") / name for name in ("model", "out"))
    small_model(source) if request.param == "small" else save_model(LAYOUTS[request.param], source)
    target.mkdir()
    write_exported(source, target)
    return target


@pytest.fixture(scope="module")
def drawer(folder: Path) -> Drawer:
    return Drawer(folder, dtype="float32", device="cpu")


def wanted(prompt: list[int], **settings: Any) -> Wanted:
    return Wanted(**{"prompt": prompt, "max_tokens": 12, "temperature": 1.0, "top_p": 1.0, "seed": 0, **settings})


def test_greedy_answers_are_those_of_the_native_sampler(folder: Path, drawer: Drawer) -> None:
    policy = load_policy(folder)
    prompts = encode_prompts(policy.tokenizer, PROMPTS, policy.ends)
    config = SamplingConfig(num_samples=1, max_new_tokens=12, temperature=0)
    samples = NativeSampler(policy).sample(prompts, config, generator=torch.Generator().manual_seed(0))
    drawn = drawer.draw([wanted(prompt, temperature=0) for prompt in prompts])
    theirs = [[int(token) for token in row] for row in samples.responses()]
    assert [one.tokens for one in drawn] == theirs
    assert [one.finished for one in drawn] == samples.finished.tolist()
    texts = decode_responses(policy.tokenizer, theirs, policy.ends)
    assert [
        policy.tokenizer.decode(one.tokens[:-1] if one.finished else one.tokens, skip_special_tokens=True)
        for one in drawn
    ] == texts


def test_a_row_does_not_depend_on_its_batch(drawer: Drawer) -> None:
    rows = [wanted([5, 6, 7], seed=1), wanted([9] * 11, seed=2, max_tokens=3), wanted([4], seed=3, temperature=0.5)]
    together = drawer.draw(rows)
    apart = [drawer.draw([row])[0] for row in rows]
    assert [one.tokens for one in together] == [one.tokens for one in apart]
    assert [one.logprobs for one in together] == [pytest.approx(one.logprobs, abs=1e-4) for one in apart]
    assert len(together[1].tokens) <= 3
    assert drawer.draw([wanted([5, 6, 7], seed=1)])[0].tokens == together[0].tokens
    assert drawer.draw([wanted([5, 6, 7], seed=8)])[0].tokens != together[0].tokens


def test_log_probabilities_are_those_of_one_pass_over_the_whole_answer(drawer: Drawer) -> None:
    prompt = [5, 6, 7, 8]
    for temperature in (1.0, 0.7):
        (one,) = drawer.draw([wanted(prompt, temperature=temperature, seed=4)])
        with torch.inference_mode():
            logits = drawer._model(torch.tensor([prompt + one.tokens])).logits[0, len(prompt) - 1 : -1]
        expected = (logits / temperature).log_softmax(-1).gather(1, torch.tensor(one.tokens)[:, None])[:, 0]
        assert one.logprobs == pytest.approx(expected.tolist(), abs=1e-4)


def test_tokens_follow_the_distribution_and_top_p_cuts_its_tail(drawer: Drawer) -> None:
    prompt, count = [5, 6], 600
    with torch.inference_mode():
        p = drawer._model(torch.tensor([prompt])).logits[0, -1].float().mul(12).softmax(-1)
    rows = [wanted(prompt, max_tokens=1, temperature=1 / 12, seed=seed) for seed in range(count)]
    found = Counter(one.tokens[0] for one in drawer.draw(rows))
    for token, times in found.most_common(3):
        share = float(p[token])
        assert abs(times / count - share) < 4.5 * math.sqrt(share * (1 - share) / count)
    kept, total = set(), 0.0
    for share, token in zip(*p.sort(descending=True), strict=True):
        if total >= 0.5:
            break
        kept.add(int(token))
        total += float(share)
    cut = drawer.draw([wanted(prompt, max_tokens=1, temperature=1 / 12, top_p=0.5, seed=seed) for seed in range(count)])
    assert {one.tokens[0] for one in cut} <= kept
    assert cut[0].logprobs[0] == pytest.approx(math.log(float(p[cut[0].tokens[0]]) / total), abs=1e-3)


def asked(folder: Path, drawer: Drawer, work: Callable[[TestClient[Any, Any]], Awaitable[None]]) -> None:
    tokenizer = load_tokenizer(folder)
    assert tokenizer is not None

    async def all_of_it() -> None:
        app = make_app(Batches(drawer, 4), tokenizer, model="m", key="the-key", max_model_len=64)
        async with TestClient(TestServer(app)) as client:
            await work(client)

    asyncio.run(all_of_it())


def test_an_answer_is_what_our_client_reads(folder: Path, drawer: Drawer) -> None:
    async def work(client: TestClient[Any, Any]) -> None:
        body = {"model": "m", "max_tokens": 6, "seed": 3, "temperature": 1.0, "top_p": 1.0}
        chat = {**body, "messages": [{"role": "user", "content": "hi"}], "logprobs": True}
        plain = {**body, "prompt": "hi", "logprobs": 1, "add_special_tokens": False}
        for path, sent, is_chat in (("chat/completions", chat, True), ("completions", plain, False)):
            for _ in range(2):
                response = await client.post(f"/v1/{path}", json=sent, headers=KEY)
                assert response.status == 200
                read = read_answer(await response.json(), chat=is_chat, key="the-key", max_new_tokens=6)
                assert 1 <= read["tokens"] <= 6 and read["logprob"] < 0
        many = [client.post("/v1/completions", json={**plain, "seed": seed}, headers=KEY) for seed in range(9)]
        assert [response.status for response in await asyncio.gather(*many)] == [200] * 9

    asked(folder, drawer, work)


BAD: list[tuple[str, Any]] = [
    ("no JSON", b"{"),
    ("no JSON", b"\xff\xfe"),
    ("no JSON", b"[" * 100_000),
    ("no JSON object", [1]),
    ("the model is 'm'", {"model": "other"}),
    ("expected a text", {"prompt": ["x"]}),
    ("the prompt is empty", {"prompt": ""}),
    ("at most 64", {"prompt": "x" * 4000}),
    ("temperature: expected a number", {"temperature": "hot"}),
    ("temperature: expected a number from 0", {"temperature": -1}),
    ("temperature: expected a number", b'{"model": "m", "prompt": "x", "temperature": NaN}'),
    ("top_p", {"top_p": 0}),
    ("max_tokens", {"max_tokens": 0}),
    ("max_tokens", {"max_tokens": True}),
    ("seed", {"seed": 2**70}),
    ("seed", {"seed": 1.5}),
    ("n: this server", {"n": 3}),
    ("stream", {"stream": True}),
]


def test_what_is_wrong_with_a_request_is_told_and_the_server_goes_on(folder: Path, drawer: Drawer) -> None:
    async def work(client: TestClient[Any, Any]) -> None:
        for told, change in BAD:
            body = {"model": "m", "prompt": "x", "max_tokens": 1, **change} if isinstance(change, dict) else change
            sent = {"data": body} if isinstance(body, bytes) else {"json": body}
            response = await client.post("/v1/completions", headers=KEY, **sent)
            assert (response.status, told in (await response.json())["error"]["message"]) == (400, True), (told, change)
        for messages in ([], "x", [{"role": "user"}], [{"role": 1, "content": "x"}], [None]):
            body = {"model": "m", "messages": messages}
            response = await client.post("/v1/chat/completions", headers=KEY, json=body)
            assert response.status == 400
        good = {"model": "m", "prompt": "x", "max_tokens": 1}
        assert (await client.post("/v1/completions", headers=KEY, json=good)).status == 200

    asked(folder, drawer, work)


def test_without_the_key_nothing_is_told_but_health(folder: Path, drawer: Drawer) -> None:
    async def work(client: TestClient[Any, Any]) -> None:
        assert (await client.get("/health")).status == 200
        for key in (
            {},
            {"Authorization": "Bearer the-ke"},
            {"Authorization": "the-key"},
            {"Authorization": "Bearer ü"},
        ):
            assert (await client.get("/v1/models", headers=key)).status == 401
            assert (await client.post("/v1/completions", json={}, headers=key)).status == 401
        assert (await client.get("/v1/models", headers=KEY)).status == 200

    asked(folder, drawer, work)


def test_a_batch_that_fails_fails_its_requests_alone(
    folder: Path, drawer: Drawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(rows: list[Wanted]) -> list[Any]:
        raise RuntimeError("out of memory")

    async def work(client: TestClient[Any, Any]) -> None:
        good = {"model": "m", "prompt": "x", "max_tokens": 1}
        with monkeypatch.context() as patched:
            patched.setattr(drawer, "draw", broken)
            response = await client.post("/v1/completions", headers=KEY, json=good)
            assert (response.status, "out of memory" in await response.text()) == (500, True)
        assert (await client.post("/v1/completions", headers=KEY, json=good)).status == 200

    asked(folder, drawer, work)
