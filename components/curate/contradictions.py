"""Prompts with several answers: the first is kept, all are accepted, or the prompt is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.contract.terminal import short_line
from components.curation.candidate import Candidate, RowCheck
from components.curation.collect import CollectedRows
from components.curation.operators.dedup import CONTRADICTION, ExactDuplicates, content_key
from components.tasks.item import Item

Contradictions = Literal["first", "all_accepted", "drop"]
ALIASES = "aliases"
TAKES_ALIASES = frozenset({"exact"})
"""Verifiers that accept the further answers in `data.aliases`."""
SHOWN_CHARS = 80
DONE = {
    "first": "the first answer is kept (contradictions: all_accepted or drop would do otherwise)",
    "all_accepted": "each of its answers is accepted",
    "drop": "the prompt is dropped",
}


def settle(
    collection: CollectedRows, checks: Sequence[RowCheck], setting: Contradictions, context: StageContext[object]
) -> None:
    """Do with contradicted rows of a collection what the setting says, and tell how many there are, with the first.

    Raises InputError where all answers are to be accepted and the verifier takes one.
    """
    others = {
        key: found
        for check in checks
        if isinstance(check, ExactDuplicates)
        for key, found in check.other_answers.items()
    }
    if not others:
        return
    kept: list[Candidate] = []
    contradicted: list[Candidate] = []
    for draft in collection.kept:
        further = others.get(content_key(draft))
        if further is None or draft.item is None:
            kept.append(draft)
            continue
        contradicted.append(draft)
        if setting == "drop":
            tally = collection.tallies[draft.source]
            tally.drops[CONTRADICTION] += 1
            tally.kept -= 1
            tally.selected_out += 1
        elif setting == "all_accepted":
            kept.append(replace(draft, item=_accepting(draft.item, further)))
        else:
            kept.append(draft)
    collection.kept = kept
    if contradicted:
        first = contradicted[0]
        assert first.item is not None
        answers = [first.item.answer, *others[content_key(first)]]
        shown = ", ".join(repr(short_line(answer, SHOWN_CHARS)) for answer in answers)
        context.tell(
            f"{len(contradicted)} prompts have several answers, and {DONE[setting]}; the first, "
            f"{short_line(first.content, SHOWN_CHARS)!r}: {shown}"
        )


def _accepting(item: Item, further: Sequence[str]) -> Item:
    if item.verifier not in TAKES_ALIASES:
        prompt = short_line(item.prompt, SHOWN_CHARS)
        raise InputError(
            f"contradictions: all_accepted: verifier {item.verifier!r} of {prompt!r} takes one answer; set "
            "verifier exact, or contradictions: first or drop"
        )
    aliases = [*item.data.get(ALIASES, []), *further]
    return item.model_copy(update={"data": {**item.data, ALIASES: list(dict.fromkeys(aliases))}})
