"""Requests and answers of OpenAI's API, as far as completions of one choice go. What a client sends may be anything."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

from components.contract.errors import InputError
from components.modeling.text.prompting import tokenize, tokenize_texts
from components.modeling.text.turn_ends import render_messages
from components.serve.server.drawing import Drawn, Wanted

MAX_SEED = 2**63


class BadRequest(Exception):
    """What is wrong with a request."""


@dataclass(frozen=True)
class Asked:
    """A request that can be drawn."""

    wanted: Wanted
    chat: bool
    logprobs: bool


def read_request(body: Any, *, chat: bool, model: str, tokenizer: PreTrainedTokenizerBase, max_model_len: int) -> Asked:
    """Return a request as tokens and settings; raise BadRequest."""
    if not isinstance(body, Mapping):
        raise BadRequest("the body is no JSON object")
    if body.get("model") != model:
        raise BadRequest(f"the model is {model!r}")
    for name, only in (("n", (1, None)), ("stream", (False, None)), ("echo", (False, None)), ("stop", (None, []))):
        if body.get(name) not in only:
            raise BadRequest(f"{name}: this server knows no other than {only[0]!r}")
    prompt = _chat_prompt(body, tokenizer) if chat else _text_prompt(body, tokenizer)
    if not prompt:
        raise BadRequest("the prompt is empty")
    room = max_model_len - len(prompt)
    if room < 1:
        raise BadRequest(f"the prompt has {len(prompt)} tokens, and prompt and answer have at most {max_model_len}")
    limit = body.get("max_tokens", body.get("max_completion_tokens"))
    wanted = Wanted(
        prompt=prompt,
        max_tokens=min(room, _whole("max_tokens", room if limit is None else limit, 1, 1 << 20)),
        temperature=_number("temperature", body.get("temperature"), 1.0, 0.0, 100.0),
        top_p=_number("top_p", body.get("top_p"), 1.0, 1e-6, 1.0),
        seed=_whole("seed", time.time_ns() if body.get("seed") is None else body["seed"], 0, MAX_SEED),
    )
    return Asked(wanted, chat, body.get("logprobs") not in (None, False))


def answer(asked: Asked, drawn: Drawn, tokenizer: PreTrainedTokenizerBase, model: str) -> dict[str, Any]:
    """Return the body of an answer; its text is without the token that ends it and without special ones."""
    tokens = drawn.tokens[:-1] if drawn.finished else drawn.tokens
    text = tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop" if drawn.finished else "length"}
    choice |= {"message": {"role": "assistant", "content": text}} if asked.chat else {"text": text}
    if asked.logprobs:
        names = tokenizer.convert_ids_to_tokens(drawn.tokens)
        rows = [{"token": name, "logprob": value} for name, value in zip(names, drawn.logprobs, strict=True)]
        plain = {"tokens": names, "token_logprobs": drawn.logprobs}
        choice["logprobs"] = {"content": rows} if asked.chat else plain
    prompt, written = len(asked.wanted.prompt), len(drawn.tokens)
    usage = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    kind = "chat.completion" if asked.chat else "text_completion"
    return {"id": "posttrain", "object": kind, "model": model, "choices": [choice], "usage": usage}


def _chat_prompt(body: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    messages = body.get("messages")
    if not (isinstance(messages, list) and messages and all(map(_is_message, messages))):
        raise BadRequest("messages: expected a list of {role, content}, both texts")
    if not tokenizer.chat_template:
        raise BadRequest("the model has no chat template; ask /v1/completions")
    plain = [{"role": message["role"], "content": message["content"]} for message in messages]
    try:
        text = render_messages(tokenizer, plain, generation=True)
    except InputError as error:
        raise BadRequest(str(error)) from error
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _text_prompt(body: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise BadRequest("prompt: expected a text")
    special = body.get("add_special_tokens", True)
    encode = tokenize if special is False else tokenize_texts
    return encode(tokenizer, [prompt])[0]


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("role"), str) and isinstance(value.get("content"), str)


def _number(name: str, value: Any, default: float, low: float, high: float) -> float:
    number = default if value is None else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise BadRequest(f"{name}: expected a number")
    if not low <= number <= high:
        raise BadRequest(f"{name}: expected a number from {low:g} to {high:g}")
    return float(number)


def _whole(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadRequest(f"{name}: expected a whole number from {low} to {high}")
    return value
