"""A judge: a model, a template, a parser and an aggregation. Verdicts are kept by content: none is asked for twice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from components.contract.artifacts import canonical_json, hash_parts
from components.contract.errors import InputError
from components.judges.config import JudgeConfig, ListwiseConfig, PairwiseConfig, PointwiseConfig
from components.judges.fencing import Request, request_of
from components.judges.judgement import Judgement, both_orders, failed, mean_ranks, together
from components.judges.reading import (
    Unread,
    label_probabilities,
    ranking_of,
    said_behind,
    said_in_json,
    value_of,
)
from components.modeling.serving.models import Asked, Drawing, Likelihood, Written

Config = TypeVar("Config", bound=JudgeConfig)
Kept = MutableMapping[str, Any]
"""Content of a request -> what was read of the answer, as JSON values."""
KEY_DIGITS = 32


class Model(Protocol):
    """What is asked of a model: weights in this process, or an endpoint."""

    name: str

    def write(self, prompts: Sequence[Asked], drawing: Drawing) -> list[list[Written | None]]:
        """Return texts to every prompt; None for one that it refuses to write."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Likelihood | None]:
        """Return the likelihood of each (prompt, text); None where there is none."""


@dataclass(frozen=True)
class Case:
    """What responses are judged for."""

    task: str
    answer: str = ""
    """The reference; a template that names it needs one."""


class Judge(Generic[Config]):
    """Asks one model; `counts` says how often it was asked, how many judgements failed, and why."""

    def __init__(self, model: Model, config: Config, kept: Kept | None = None, *, seed: int = 0) -> None:
        """`kept` holds earlier verdicts and gets new ones: in an operator, its memory."""
        self.model, self.config, self._seed = model, config, seed
        self._kept: Kept = {} if kept is None else kept
        self.counts: Counter[str] = Counter()

    def _request(self, case: Case, responses: Mapping[str, str | Sequence[str]]) -> Request:
        config, named = self.config, "{answer}" in self.config.wording
        if named and not case.answer:
            raise InputError("judge: the template names {answer}, and an item has none")
        answer = {"answer": case.answer} if named else {}
        own = {"scale": config.scale, "mark": config.mark}
        judged = {"task": case.task, **answer, **responses}
        return request_of(config.wording, judged, own, config.fence, self._marks)

    @cached_property
    def _marks(self) -> Sequence[str]:
        """Return the control marks of the model's tokenizer, where it is in this process."""
        return getattr(self.model, "control_marks", ())

    def _ask(self, requests: Sequence[Request]) -> list[Any]:
        """Return what is read of the model's answer to each request."""
        keys = [self._key(request) for request in requests]
        new = {key: one for key, one in zip(keys, requests, strict=True) if key not in self._kept}
        self.counts["asked"] += len(new)
        if new:
            ask = self._likelihoods if self.config.reading == "probability" else self._texts
            said = zip(new.items(), ask(new.values()), strict=True)
            self._kept.update((key, self._read(found, request)) for (key, request), found in said)
        return [self._kept[key] for key in keys]

    def _key(self, request: Request) -> str:
        return hash_parts(self._asked_how, canonical_json([self.model.name, request.text]))[:KEY_DIGITS]

    @cached_property
    def _asked_how(self) -> bytes:
        own = set(JudgeConfig.model_fields)  # what a stage adds, such as a weight, changes no verdict
        return canonical_json([self._seed, self.config.model_dump(mode="json", include=own)])

    def _texts(self, requests: Iterable[Request]) -> list[Any]:
        """Return the texts to each request; None for one that is refused or cut, which may end before the verdict."""
        config = self.config
        drawing = Drawing(
            num_samples=config.samples,
            max_new_tokens=config.max_new_tokens,
            temperature=config.temperature,
            seed=self._seed,
        )
        found = self.model.write([request.text for request in requests], drawing)
        return [[one.text if one is not None and one.finished else None for one in texts] for texts in found]

    def _likelihoods(self, requests: Iterable[Request]) -> list[Any]:
        """Return the log-probability of every label as the answer to each request."""
        if not getattr(self.model, "scores", True):
            raise InputError(
                f"judge {self.model.name}: reading probability needs log-probabilities, which an endpoint of api: chat "
                "does not give; take api: completions, or reading mark or json"
            )
        asked, labels = [request.text for request in requests], list(self.config.labels)
        found = iter(self.model.score([(text, label) for text in asked for label in labels]))
        rows = [[next(found) for _ in labels] for _ in asked]
        return [[math.nan if one is None else one.logprob for one in row] for row in rows]

    def _read(self, said: Any, request: Request) -> Any:
        """Return the value and why there is none, of the samples of a request or of the labels' log-probabilities."""
        if self.config.reading == "probability":
            found = self._expected(said)
        else:
            found = together([self._value(text, request) for text in said], self.config.aggregate)
        return [found.value, found.why]

    def _value(self, text: str | None, request: Request) -> Judgement:
        try:
            return value_of(self._said(text, request), self.config.labels, self.config.low, self.config.high)
        except Unread as error:
            return failed(str(error))

    def _said(self, text: str | None, request: Request) -> Any:
        if text is None:
            raise Unread("refused or cut")
        if self.config.reading == "json":
            return said_in_json("verdict", text, request, signed=self.config.signed)
        return said_behind(self.config.mark.replace("{nonce}", request.nonce), text, request)

    def _expected(self, logprobs: Sequence[float]) -> Judgement:
        """Return the labels' mean value, weighed by their probabilities (Liu et al. 2023, G-Eval, arXiv:2303.16634)."""
        try:
            shares = label_probabilities(logprobs, self.config.min_mass)
        except Unread as error:
            return failed(str(error))
        return Judgement(math.fsum(map(math.prod, zip(shares, self.config.labels.values(), strict=True))))

    def _judgements(self, requests: Sequence[Request]) -> list[Judgement]:
        return self._counted([Judgement(*found) for found in self._ask(requests)])

    def _counted(self, found: list[Judgement]) -> list[Judgement]:
        self.counts.update(f"failed: {one.why}" for one in found if one.failed)
        self.counts["failed"] += sum(one.failed for one in found)
        return found


class PointwiseJudge(Judge[PointwiseConfig]):
    """Says what single responses are worth."""

    def judge(self, pairs: Sequence[tuple[Case, str]]) -> list[Judgement]:
        """Return the value of each response, from 0 to 1; equal ones are asked about once."""
        return self._judgements([self._request(case, {"response": response}) for case, response in pairs])


class PairwiseJudge(Judge[PairwiseConfig]):
    """Says which of two responses is better."""

    def orders(self, pairs: Sequence[tuple[Case, str, str]]) -> list[tuple[Judgement, Judgement]]:
        """Return of each pair how sure the judge is of the first response: shown first, and shown second."""
        requests = [
            self._request(case, {"first": one, "second": other})
            for case, left, right in pairs
            for one, other in ((left, right), (right, left))
        ]
        found = self._judgements(requests)
        turned = [one if one.value is None else Judgement(1 - one.value) for one in found[1::2]]
        return list(zip(found[::2], turned, strict=True))

    def judge(self, pairs: Sequence[tuple[Case, str, str]]) -> list[Judgement]:
        """Return how sure the judge is that the first response is better, asked in both orders."""
        return [both_orders(first, second, self.config.orders) for first, second in self.orders(pairs)]


class ListwiseJudge(Judge[ListwiseConfig]):
    """Ranks several responses."""

    def judge(self, case: Case, responses: Sequence[str]) -> list[Judgement]:
        """Return of each response the mean share of others ranked behind it, over all rotations of their order."""
        return self.judge_all([(case, responses)])[0]

    def judge_all(self, lists: Sequence[tuple[Case, Sequence[str]]]) -> list[list[Judgement]]:
        """Return the same of the responses of each case; all are asked about together."""
        turns = [_rotations(len(responses)) for _, responses in lists]
        requests = [
            self._request(case, {"responses": [responses[place] for place in order]})
            for (case, responses), orders in zip(lists, turns, strict=True)
            for order in orders
        ]
        said = iter(self._ask(requests))
        found = []
        for orders in turns:
            places = [next(said) for _ in orders]
            rankings = [
                None if one is None else [order[place] for place in one]
                for one, order in zip(places, orders, strict=True)
            ]
            found.append(self._counted(mean_ranks(rankings, len(orders))))
        return found

    def _read(self, said: Any, request: Request) -> Any:
        """Return the places of the responses as shown, best first; None if they cannot be read."""
        try:
            return ranking_of(self._said(said[0], request), len(request.judged) - self._num_others)
        except Unread:
            return None

    @property
    def _num_others(self) -> int:
        """Return how many judged texts are not responses: task, and answer."""
        return 2 if "{answer}" in self.config.wording else 1


def _rotations(count: int) -> list[list[int]]:
    """Return `count` orders of as many places; each place is first in one of them."""
    return [[(place + shift) % count for place in range(count)] for shift in range(count)]
