"""Where a step that was made again parts from the recorded one: the first difference in the order of the step.

Does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Parting:
    """The first difference of a step."""

    step: int
    what: str
    """What of the step differs: settings, prompts, draws, responses ..."""
    detail: str
    """The first case, in words."""

    def __str__(self) -> str:
        return f"step {self.step}: {self.what}: {self.detail}"


def parting(then: Line, now: Line, row_then: Line | None, row_now: Line | None) -> Parting | None:
    """Return where a step parts, None if it is equal bit for bit; rows are those of the history."""
    found = next(_differences(then, now), None) or next(_columns(row_then or {}, row_now or {}), None)
    return None if found is None else Parting(int(then["step"]), *found)


def _differences(then: Line, now: Line) -> Iterator[tuple[str, str]]:
    for name in then["settings"]:
        if then["settings"][name] != now["settings"].get(name):
            yield "settings", f"{name} was {then['settings'][name]} and is {now['settings'].get(name)}"
    if then["prompts"] != now["prompts"]:
        at = _first(then["prompts"], now["prompts"])
        yield "prompts", f"the {_ordinal(at)} was {_at(then['prompts'], at)} and is {_at(now['prompts'], at)}"
    if then["drawn"] != now["drawn"]:
        yield "draws", f"{drawn_words(then)} then, {drawn_words(now)} now"
    yield from _rows(then, now)
    yield from _digests(then, now)


def _rows(then: Line, now: Line) -> Iterator[tuple[str, str]]:
    names = {"responses": "other tokens", "outcomes": "another outcome:", "rewards": "another reward:"}
    for key, word in names.items():
        if then[key] != now[key]:
            at = _first(then[key], now[key])
            values = "" if key == "responses" else f" {_at(then[key], at)} then, {_at(now[key], at)} now"
            yield key, f"response {at + 1} of {len(then[key])}, to {prompt_of(then, at)}, has {word}{values}"
    if then["groups"] != now["groups"] or then["cut"] != now["cut"] or then.get("traces") != now.get("traces"):
        yield "responses", "other groups, or others are cut at the limit"
    for name in [*then["parts"], *(name for name in now["parts"] if name not in then["parts"])]:
        mine, other = then["parts"].get(name, []), now["parts"].get(name, [])
        if mine != other:
            at = _first(mine, other)
            yield "parts of the reward", f"{name} of response {at + 1} was {_at(mine, at)} and is {_at(other, at)}"


def _digests(then: Line, now: Line) -> Iterator[tuple[str, str]]:
    words = {"logprobs": "log-probabilities of the draws", "entropies": "entropies of the draws"}
    for key, word in words.items():
        if then["digests"].get(key) != now["digests"].get(key):
            yield word, "equal tokens, other bits"
    if then["learned"] != now["learned"]:
        yield "what is learned from", "filters or the replay slot chose other rows"
    if then["advantages"] != now["advantages"]:
        at = _first(then["advantages"], now["advantages"])
        yield "advantages", f"row {at + 1} had {_at(then['advantages'], at)} and has {_at(now['advantages'], at)}"
    if then["digests"].get("batch") != now["digests"].get("batch"):
        yield "the batch", "advantages of tokens, reference, values or marks have other bits"
    after, again = then["after"], now["after"]
    for key, word in {"weights": "weights after the step", "generator": "random generator after the step"}.items():
        if after.get(key) != again.get(key):
            yield word, "other bits"
    if after.get("waiting") != again.get("waiting"):
        yield "draws that wait", f"of weights {after.get('waiting')} then, {again.get('waiting')} now"


def _columns(then: Line, now: Line) -> Iterator[tuple[str, str]]:
    for name in then:
        if then[name] != now.get(name):
            yield f"column {name} of the history", f"{then[name]!r} then, {now.get(name)!r} now"


def drawn_words(line: Line) -> str:
    """Return who drew the responses of a step: "32 by the weights after step 36"."""
    told = [f"{rows} by the weights {_after(version)}" for version, rows in line["drawn"]]
    return ", ".join(told) or "nothing drawn"


def prompt_of(line: Line, row: int) -> str:
    """Return the prompt of a row."""
    end = 0
    for prompt, size in zip(line["prompts"], line["groups"], strict=False):
        end += size
        if row < end:
            return str(prompt)
    return "no prompt"


def _after(version: int) -> str:
    return "of an unknown step" if version < 0 else f"after step {version}" if version else "of the start"


def _first(mine: Any, other: Any) -> int:
    """Return the first place at which two sequences differ."""
    pairs = zip(mine, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(mine), len(other)))


def _at(values: Any, at: int) -> Any:
    return values[at] if at < len(values) else "missing"


def _ordinal(at: int) -> str:
    return {0: "first", 1: "second", 2: "third"}.get(at, f"{at + 1}th")
