"""Several views of one record: how well they agree with what they show together."""

from __future__ import annotations

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.domains.worlds.records import ENCODINGS, MAX_VALUES, Record, read_view, reconstruct
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong


class ViewsVerifierConfig(Params):
    """No settings of its own."""


def views(item: Item, response: str, *, config: ViewsVerifierConfig) -> Verdict:
    """Score the share of fields, over all views, that agree with the reconstruction and with what the prompt states.

    The reconstruction takes each field from most of the readable views. A view that cannot be read agrees nowhere, and
    another number of views than asked for scores 0. RIGHT with all of them equal.
    Source: Carve3D, multi-view reconstruction consistency, with exact match in the place of LPIPS.
    """
    stated, encodings, values = _asked(item)
    text = extract_answer(response)
    written = text.split(maxsplit=len(encodings))
    if len(written) != len(encodings):
        return wrong(f"no {len(encodings)} views: {text[:80]!r}", graded=0.0)
    read = [read_view(name, view, len(stated), values) for name, view in zip(encodings, written, strict=True)]
    readable = [record for record in read if record is not None]
    if not readable:
        return wrong(f"no view can be read: {text[:80]!r}", graded=0.0)
    whole = reconstruct(readable)
    fitting = [
        own == field and asked in (None, field)
        for record in readable
        for own, field, asked in _fields(record, whole, stated)
    ]
    score = sum(fitting) / (len(stated) * len(encodings))
    return RIGHT if score == 1 else wrong(f"{score:.2f} of the fields agree: {text[:80]!r}", graded=score)


def _fields(record: Record, whole: Record, stated: list[int | None]) -> list[tuple[int, int, int | None]]:
    return list(zip(record, whole, stated, strict=True))


def _asked(item: Item) -> tuple[list[int | None], list[str], int]:
    stated, encodings, values = (item.data.get(key) for key in ("given", "encodings", "values"))
    if not (isinstance(stated, list) and stated and all(field is None or isinstance(field, int) for field in stated)):
        raise BrokenItem(f"data.given is no list of fields: {stated!r:.80}")
    if not (isinstance(encodings, list) and encodings and set(map(str, encodings)) <= set(ENCODINGS)):
        raise BrokenItem(f"data.encodings is no list of encodings: {encodings!r:.80}")
    if not (isinstance(values, int) and 2 <= values <= MAX_VALUES):
        raise BrokenItem(f"data.values is no number from 2 to {MAX_VALUES}: {values!r:.80}")
    return stated, [str(name) for name in encodings], values
