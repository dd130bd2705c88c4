"""Requests of a stage to its engine, and the conversion of replies to Samples.

A request has a prompt, how many responses to draw, how many tokens each may have, and a seed. On the wire, for Q
requests with K responses in all, of N tokens in all:

    sample   header: temperature, top_p, top_k, stop (token ids), and of a constrained draw `structured`: its languages,
             each as one keyword of vLLM's StructuredOutputsParams
             arrays: tokens [sum of lengths], lengths [Q], counts [Q], limits [Q] (int32), seeds [Q] (int64), and of a
             constrained draw languages [Q] (int32), the place of each request's language in `structured`
    reply    arrays: tokens [N], lengths [K] (int32), logprobs [N] (float32), finished [K] (bool)

Shapes: S samples (rows), T response tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from components.modeling.generation.engine.frames import Arrays
from components.modeling.generation.generate import Samples
from components.modeling.generation.sampling_config import SamplingConfig

NOTHING: Arrays = {
    "tokens": np.empty(0, np.int32),
    "lengths": np.empty(0, np.int32),
    "logprobs": np.empty(0, np.float32),
    "finished": np.empty(0, bool),
}
"""The reply to an empty list of requests."""


@dataclass(frozen=True)
class Request:
    """Rows of one prompt that begin with the same forced tokens."""

    tokens: tuple[int, ...]
    """The prompt and the forced tokens after it."""
    forced: tuple[int, ...]
    rows: tuple[int, ...]
    """Rows of Samples that it fills."""
    limit: int
    """Tokens that may still be drawn; 0 if the forced ones are the whole response."""
    ended: bool = False
    """Whether the last forced token is an end mark."""


def plan_requests(
    prompts: Sequence[Sequence[int]],
    config: SamplingConfig,
    prefixes: Sequence[Sequence[int]] | None,
    ends: frozenset[int],
) -> list[Request]:
    """Return the requests of all rows, in their order; neighbours of one prompt and prefix share a request."""
    size = config.num_samples
    requests: list[Request] = []
    for index, prompt in enumerate(prompts):
        rows = range(index * size, (index + 1) * size)
        grouped: list[tuple[tuple[int, ...], list[int]]] = []
        for row in rows:
            forced = _forced(prefixes[row], config.max_new_tokens, ends) if prefixes is not None else ()
            if not grouped or grouped[-1][0] != forced:
                grouped.append((forced, []))
            grouped[-1][1].append(row)
        for forced, members in grouped:
            done = bool(forced) and forced[-1] in ends
            limit = 0 if done else config.max_new_tokens - len(forced)
            requests.append(Request((*prompt, *forced), forced, tuple(members), limit, done))
    return requests


def _forced(prefix: Sequence[int], limit: int, ends: frozenset[int]) -> tuple[int, ...]:
    """Return a prefix's forced tokens: up to its first end mark, and at most `limit`."""
    first_end = next((at for at, token in enumerate(prefix) if token in ends), limit)
    return tuple(prefix[: min(first_end + 1, limit)])


def to_arrays(requests: Sequence[Request], seeds: Tensor, *, greedy: bool) -> Arrays:
    """Return the arrays of a sample call; greedy rows of a request are equal, so one is drawn."""
    return {
        "tokens": np.array([token for request in requests for token in request.tokens], dtype=np.int32),
        "lengths": np.array([len(request.tokens) for request in requests], dtype=np.int32),
        "counts": np.array([1 if greedy else len(request.rows) for request in requests], dtype=np.int32),
        "limits": np.array([request.limit for request in requests], dtype=np.int32),
        "seeds": seeds.numpy(),
    }


def to_samples(
    requests: Sequence[Request], reply: Arrays, config: SamplingConfig, *, num_rows: int, pad_id: int, vocab_size: int
) -> Samples:
    """Return replies to the requests that draw, and the forced tokens of all requests, as Samples; entropies are 0.

    Raises ValueError for a reply that does not fit the requests.
    """
    found = _responses(requests, reply, greedy=config.greedy, vocab_size=vocab_size)
    shape = (num_rows, config.max_new_tokens)
    tokens, logprobs = np.full(shape, pad_id, dtype=np.int64), np.zeros(shape, dtype=np.float32)
    sampled, lengths, finished = np.zeros(shape, bool), np.zeros(num_rows, np.int64), np.zeros(num_rows, bool)
    for request in requests:
        start = len(request.forced)
        for row in request.rows:
            tokens[row, :start], lengths[row], finished[row] = request.forced, start, request.ended
            if request.limit:
                drawn = next(found)
                end = start + len(drawn.tokens)
                tokens[row, start:end], logprobs[row, start:end] = drawn.tokens, drawn.logprobs
                sampled[row, start:end], lengths[row], finished[row] = True, end, drawn.finished
    return Samples(
        tokens=torch.from_numpy(tokens),
        lengths=torch.from_numpy(lengths),
        logprobs=torch.from_numpy(logprobs),
        entropies=torch.zeros(shape),
        prompt_index=torch.arange(num_rows) // config.num_samples,
        finished=torch.from_numpy(finished),
        sampled=torch.from_numpy(sampled),
        num_samples=config.num_samples,
    )


class _Response(NamedTuple):
    tokens: np.ndarray
    logprobs: np.ndarray
    finished: bool


def _responses(requests: Sequence[Request], reply: Arrays, *, greedy: bool, vocab_size: int) -> Iterator[_Response]:
    """Yield the responses of a checked reply for each row that draws, in the order of the requests."""
    drawing = [request for request in requests if request.limit]
    _check_reply(reply, sum(1 if greedy else len(request.rows) for request in drawing), vocab_size)
    if not drawing:
        return
    ends = np.cumsum(reply["lengths"])[:-1]
    columns = (np.split(reply["tokens"], ends), np.split(reply["logprobs"], ends), reply["finished"].tolist())
    found = (_Response(*values) for values in zip(*columns, strict=True))
    for request in drawing:
        for response in islice(found, 1 if greedy else len(request.rows)):
            if not 1 <= len(response.tokens) <= request.limit:
                raise ValueError(f"a response of {len(response.tokens)} tokens, not of 1 to {request.limit}")
            yield from repeat(response, len(request.rows) if greedy else 1)


def _check_reply(reply: Arrays, count: int, vocab_size: int) -> None:
    if len(reply["lengths"]) != count or len(reply["finished"]) != count:
        raise ValueError(f"{len(reply['lengths'])} responses where {count} were wanted")
    total = int(reply["lengths"].sum())
    if not len(reply["tokens"]) == len(reply["logprobs"]) == total:
        raise ValueError(f"{len(reply['tokens'])} tokens in responses of {total}")
    if total and not 0 <= reply["tokens"].min() <= reply["tokens"].max() < vocab_size:
        raise ValueError(f"a token outside the vocabulary of {vocab_size}")
    if not np.isfinite(reply["logprobs"]).all():
        raise ValueError("a log-probability that is not finite")
