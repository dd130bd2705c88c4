"""Rows of preferences: one task, the response that is preferred, and the one that is not.

Read as they are: TRL's forms (with `prompt`, or with a prompt that both sides begin with; sides as texts or as lists
of messages), which UltraFeedback, HelpSteer's pairs and hh-rlhf have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

from components.contract.errors import InputError
from components.contract.messages import Message
from components.tasks.conversations import read_conversation
from components.tasks.row_kinds.reading import (
    Judged,
    Task,
    as_task,
    checked_size,
    checked_text,
    number_of,
    response_text,
    shared_fields,
    shown,
    task_of,
    text_or_none,
    truth_of,
    with_columns,
)
from components.tasks.weights import WEIGHT

CHOSEN, REJECTED, MARGIN, LABEL_SOURCE = "chosen", "rejected", "margin", "label_source"
PREFIX, ENDED = "prefix", "ended"
SHOWN_FIRST = "shown_first"
"""Column that says which side the judge of a pair was shown first."""
KEPT = (CHOSEN, REJECTED, MARGIN, LABEL_SOURCE, SHOWN_FIRST, PREFIX, ENDED, WEIGHT)
"""What of a pair stays with its row where it is read as a prompt."""
SCORES = ("score_chosen", "score_rejected")
"""Columns of UltraFeedback and others; their difference is the margin where there is no column of it."""


@dataclass(frozen=True, kw_only=True)
class Preference(Judged):
    """One pair."""

    chosen: str
    rejected: str
    margin: float | None = None
    """How much better the chosen one is, as its source measures it; negative where scores contradict the pair."""
    label_source: str | None = None
    """Who judged: a scorer, a judge, people."""
    shown_first: Literal["chosen", "rejected"] | None = None
    """Which side its judge was shown first, where the rows tell."""
    prefix: str = ""
    """What the response says before both sides, which are then its next step: context, not compared."""
    ended: bool = True
    """Whether a side ends its response; if not, more steps would follow, and no end is learnt."""

    def row(self) -> dict[str, Any]:
        """Return the pair as a row of a Dataset."""
        step = {PREFIX: self.prefix or None, ENDED: None if self.ended else False}
        more = {MARGIN: self.margin, LABEL_SOURCE: self.label_source, SHOWN_FIRST: self.shown_first, **step}
        known = {name: value for name, value in more.items() if value is not None}
        return {**super().row(), CHOSEN: self.chosen, REJECTED: self.rejected, **known}


def preference_of(row: Mapping[str, Any]) -> Preference:
    """Return the pair of a row.

    Raises InputError, in one line, for missing columns, sides that are equal, blank, or answer different tasks.
    """
    with_columns(row, "preferences")
    task, chosen, rejected = _sides(row)
    if chosen == rejected:
        raise InputError(f"chosen and rejected are equal ({shown(chosen)}): such a pair prefers nothing")
    return Preference(
        task=task,
        chosen=chosen,
        rejected=rejected,
        margin=_margin(row),
        label_source=text_or_none(row, LABEL_SOURCE),
        shown_first=_shown_first(row),
        prefix=text_or_none(row, PREFIX, blank=True) or "",
        ended=True if row.get(ENDED) is None else truth_of(row[ENDED], ENDED),
        **shared_fields(row),
    )


def _shown_first(row: Mapping[str, Any]) -> Literal["chosen", "rejected"] | None:
    """Return column `shown_first`."""
    if (side := row.get(SHOWN_FIRST)) in (None, CHOSEN, REJECTED):
        return side
    raise InputError(f"{SHOWN_FIRST} is {shown(side)}, expected {CHOSEN} or {REJECTED}")


def _margin(row: Mapping[str, Any]) -> float | None:
    """Return column `margin`, or else the difference of both scores; None where there is neither."""
    if (margin := number_of(row, MARGIN)) is not None:
        return margin
    better, worse = (number_of(row, name) for name in SCORES)
    if better is None or worse is None:
        return None
    return checked_size(better - worse, f"{SCORES[0]} {better} less {SCORES[1]} {worse}")


def _sides(row: Mapping[str, Any]) -> tuple[Task, str, str]:
    """Return the task and both responses."""
    sides = [row[CHOSEN], row[REJECTED]]
    if all(_is_whole(side) for side in sides):
        return _whole(row)
    if not row.get("prompt") and not row.get("messages"):
        if row.get("tools"):
            raise InputError("tools are offered in a conversation, and there is no prompt: give `prompt` or `messages`")
        if all(isinstance(side, str) for side in sides):
            return _with_a_common_beginning(*sides)
        raise InputError(
            "no prompt: give `prompt` or `messages`, or let both sides hold the conversation from its start"
        )
    return task_of(row), response_text(row[CHOSEN], CHOSEN), response_text(row[REJECTED], REJECTED)


def _is_whole(side: Any) -> bool:
    """Return whether a side holds the conversation from its start, the task included."""
    first = side[0] if isinstance(side, list | tuple) and side else None
    return isinstance(first, Mapping) and first.get("role", first.get("from")) not in ("assistant", "gpt")


def _whole(row: Mapping[str, Any]) -> tuple[Task, str, str]:
    """Return task and responses of sides that are conversations; `prompt` must then be one of the user's messages."""
    chosen, rejected = (read_conversation(row[name], name, row.get("tools")) for name in (CHOSEN, REJECTED))
    task, other = as_task(chosen.messages), as_task(rejected.messages)
    if task != other:
        at = len(
            list(takewhile(lambda both: both[0] == both[1], zip(chosen.messages, rejected.messages, strict=False)))
        )
        raise InputError(
            f"chosen and rejected differ at messages[{at}], before their last one: both sides must answer one task"
        )
    if (prompt := row.get("prompt")) and not _asks(chosen.messages, prompt, row.get("tools")):
        raise InputError(f"the prompt {shown(prompt)} is not what the conversation in chosen asks")
    if chosen.response is None or rejected.response is None:
        raise InputError(f"{CHOSEN if chosen.response is None else REJECTED} does not end with an answer")
    return task, checked_text(chosen.response, CHOSEN), checked_text(rejected.response, REJECTED)


def _asks(messages: tuple[Message, ...], prompt: Any, tools: Any) -> bool:
    """Return whether `prompt` is one of the messages' texts, or the whole conversation."""
    if isinstance(prompt, str):
        return prompt in [message.content for message in messages]
    return task_of({"prompt": prompt, "tools": tools}) == as_task(messages)


def _with_a_common_beginning(chosen: str, rejected: str) -> tuple[Task, str, str]:
    """Return the prompt that two texts begin with, and the rest of each, cut as TRL cuts them."""
    same = takewhile(lambda both: both[0] == both[1], zip(chosen, rejected, strict=False))
    length = len(list(same))
    if chosen == rejected:
        return chosen, chosen, rejected
    if length and chosen[length - 1] == " ":  # the space belongs to the response's first token
        length -= 1
    if not chosen[:length].strip():
        raise InputError("no prompt, and chosen and rejected have no beginning in common that could be one")
    return chosen[:length], checked_text(chosen[length:], CHOSEN), checked_text(rejected[length:], REJECTED)
