"""Reading a judge's own words: a mark, or JSON. What it quotes of a response does not count."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from components.judges.fencing import Request
from components.judges.judgement import Judgement, failed

NUMBER = re.compile(r"[+-]?\d{1,9}(\.\d{1,9})?")
DECORATION = " \t*`."
"""What may stand around a value behind its mark."""
EDGES = DECORATION + "".join(filter(str.isspace, map(chr, range(0x3001))))
"""The same, and all other spaces."""
ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
FLAT = r"""\[[^][{}]*]|"(?:[^"\\]|\\.)*"|[^][{}",\s]+"""
"""A JSON value that is no object, nor a list of lists or objects."""
MOST_OBJECTS = 1000
"""Braces at which JSON is looked for."""


class Unread(Exception):
    """A text holds no verdict; the message says why."""


def bare(text: str) -> str:
    """Return a label, or what is said, as they are compared: without case, and without what may stand around it."""
    return text.strip(EDGES).casefold()


def said_behind(mark: str, text: str, request: Request) -> str:
    """Return what stands behind the mark, on a line that begins with it; without a mark, the whole text.

    Raises Unread for no such line, for lines that differ, and for one that also stands in what was judged: with a
    nonce in the mark that cannot be.
    """
    if not mark:
        return text.strip()
    mark, lines = mark.strip(DECORATION), [line.strip(DECORATION) for line in text.splitlines()]
    marked = [line for line in lines if line.startswith(mark)]
    own = [line for line in marked if not _is_quoted(line, request)]
    said = {line.removeprefix(mark).strip(DECORATION) for line in own}
    told = _marked(mark, request)
    said = {one for one in said if _plain(one) not in told}
    if not said:
        raise Unread("only a quoted mark" if marked else "no mark")
    if len(said) > 1:
        raise Unread("two marks that differ")
    return said.pop()


def said_in_json(key: str, text: str, request: Request, *, signed: bool) -> Any:
    """Return the value at `key` of the JSON objects in a text; `signed`: of those whose "nonce" is the request's.

    Raises Unread for none, and for objects that differ. An object that stands in what was judged does not count, nor,
    without a nonce, one whose value stands there at the same key, however it is written.
    """
    found = [
        value
        for written, value in _objects(text)
        if key in value and (value.get("nonce") == request.nonce or not signed) and not _is_quoted(written, request)
    ]
    if not signed and found:
        told = _keyed(key, request)
        found = [value for value in found if _plain(value[key]) not in told]
    if not found:
        raise Unread("no JSON object with the verdict")
    if any(one[key] != found[0][key] or type(one[key]) is not type(found[0][key]) for one in found):
        raise Unread("two JSON objects that differ")
    return found[0][key]


def value_of(said: Any, labels: Mapping[str, float], low: float, high: float) -> Judgement:
    """Return the value of a label, or, without labels, of a number from low to high as a share of the way."""
    if labels:
        by_name = {bare(label): value for label, value in labels.items()}
        known = by_name.get(bare(said)) if isinstance(said, str) else None
        return failed("no label") if known is None else Judgement(known)
    if isinstance(said, str):
        said = float(said) if NUMBER.fullmatch(said.strip()) else None
    if isinstance(said, bool) or not isinstance(said, int | float) or said in (math.inf, -math.inf):
        return failed("no number")  # not isfinite: an int may be larger than any float
    return Judgement((said - low) / (high - low)) if low <= said <= high else failed("out of the scale")


def ranking_of(said: Any, count: int) -> list[int]:
    """Return places from 0, best first, of "2 > 1 > 3" or [2, 1, 3]; raise Unread if they are no permutation."""
    parts: Sequence[Any] = re.split(r"[>,]", said) if isinstance(said, str) else said if isinstance(said, list) else ()
    texts = [part.strip() if isinstance(part, str) else f"{part}" if type(part) is int else "" for part in parts]
    if not all(text.isascii() and text.isdigit() and len(text) <= 4 for text in texts):
        raise Unread("no ranking")
    places = [int(text) - 1 for text in texts]
    if sorted(places) != list(range(count)):
        raise Unread("a ranking that does not name each response once")
    return places


def label_probabilities(logprobs: Sequence[float], min_mass: float) -> list[float]:
    """Return the probability of each label among all, by their log-probabilities as texts.

    Raises Unread where one is not finite, or where they have less than `min_mass` together: the judge would write
    something else.
    """
    if not all(map(math.isfinite, logprobs)):
        raise Unread("no probability")
    if math.fsum(math.exp(min(one, 0.0)) for one in logprobs) < min_mass:
        raise Unread("no label is likely")
    weights = [math.exp(one - max(logprobs)) for one in logprobs]
    return [weight / math.fsum(weights) for weight in weights]


def _is_quoted(own: str, request: Request) -> bool:
    """Return whether a part of a judge's text also stands in what was judged, but for spaces."""
    return any("".join(own.split()) in "".join(judged.split()) for judged in request.judged)


def _marked(mark: str, request: Request) -> list[Any]:
    """Return the values behind a mark in what was judged, wherever in a line it stands."""
    mark = "".join(mark.split()).casefold()
    lines = ("".join(line.split()).casefold() for judged in request.judged for line in judged.splitlines())
    return [_plain(one) for line in lines if mark for one in line.split(mark)[1:]]


def _keyed(key: str, request: Request) -> list[Any]:
    """Return the values at a key of all JSON in what was judged: of inner objects too, of broken ones, and of texts."""
    named, found = re.compile(rf'"{re.escape(key)}"\s*:\s*(?=({FLAT}))'), []
    for judged in request.judged:
        unescaped = ESCAPED.sub(lambda digits: chr(int(digits[1], 16)), judged).replace("\\", "")
        for text in {judged, unescaped}:
            for place in named.finditer(text):
                try:
                    found.append(_plain(json.loads(place[1])))
                except ValueError:
                    continue
    return found


def _plain(said: Any) -> Any:
    """Return what is said as it is compared with what was judged: numbers in texts as numbers, rankings as lists."""
    if isinstance(said, list):
        return [_plain(one) if isinstance(one, str | int | float) else None for one in said]
    if not isinstance(said, str):
        return said if isinstance(said, int | float) else None
    if len(parts := re.split(r"[>,]", said)) > 1:
        return [_plain(part) for part in parts]
    text = bare("".join(said.split()))
    return float(text) if NUMBER.fullmatch(text) else text


def _objects(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the outermost JSON objects of a text, each as it is written and as a value."""
    decoder = json.JSONDecoder(object_pairs_hook=_without_repeats, parse_constant=_refuse)
    at = 0
    for _ in range(MOST_OBJECTS):
        at = text.find("{", at)
        if at < 0:
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        yield text[at:end], value
        at = end


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
