"""Conversations as tokens: the policy's first context, and the template's tokens between the turns it writes.

Training and sampling use one layout: template tokens alternate with the policy's own turns.
Sampled tokens are never tokenised again. A template that changes earlier turns once others follow them (one
that drops earlier thinking, say) is refused: a policy would be trained on a context that it never saw. Where only the
last turn is learnt, or written, its context is what the template makes of the messages before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

from transformers import PreTrainedTokenizerBase

from components.contract.errors import InputError
from components.contract.messages import Message, check_messages, check_task, filled, naming, num_turns
from components.modeling.text.prompting import Encoded, encode_prompts, split_example, tokenize
from components.modeling.text.tool_use import check_tools_rendered
from components.modeling.text.turn_ends import (
    PROBE,
    QUESTION,
    TEXT_MARKS,
    TurnEnds,
    find_turn_ends,
    render_messages,
    template_end,
)

PROBES = (PROBE, f"<think>\nSix sevens.\n</think>\n\n{PROBE}")
"""Placeholders for the policy's turns: a template must leave both unchanged when turns follow."""
SHOWN_CHARS = 60
Learn = Literal["last", "all", "marked"]
Piece = tuple[str, str]
"""The template's text before a turn of the assistant, and the turn with its end mark."""
Tokens = tuple[list[int], list[int]]
"""The same as tokens: the gap after the previous end token, and the turn with its end token."""


@dataclass(frozen=True)
class Script:
    """The template's tokens of a conversation: everything but the policy's turns."""

    opening: list[int]
    """Up to the first open turn, its generation prompt included."""
    gaps: tuple[list[int], ...]
    """From the end token (excluded) of each open turn but the last, through the next generation prompt."""
    end: int
    """The token that ends a turn."""

    @property
    def num_turns(self) -> int:
        """Return how many turns the policy writes."""
        return len(self.gaps) + 1

    def num_tokens(self, turn_tokens: int) -> int:
        """Return the tokens of the conversation when every turn is cut at `turn_tokens`."""
        return len(self.opening) + turn_tokens * self.num_turns + sum(len(gap) + 1 for gap in self.gaps)

    def following(self, turn: int, sampled: Sequence[int] | None = None) -> list[int]:
        """Return what follows sampled turn number `turn` (from 0); without `sampled`, its end token is assumed."""
        missing = sampled is not None and (not sampled or sampled[-1] != self.end)
        return [self.end, *self.gaps[turn]] if missing else list(self.gaps[turn])


def opening(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], ends: TurnEnds | None = None) -> list[int]:
    """Return the token ids up to the first open turn, its generation prompt included; see `script`."""
    return script(tokenizer, messages, ends).opening


def following(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Message],
    turn: int,
    sampled: Sequence[int] | None = None,
    ends: TurnEnds | None = None,
) -> list[int]:
    """Return the template's tokens after sampled turn number `turn` (from 0) through the next generation prompt.

    A turn that was cut by the token limit lacks the template's end token, which then comes first; pass the turn's
    tokens as `sampled` to detect this. Raises InputError for the last turn, which nothing follows.
    """
    found = script(tokenizer, messages, ends)
    if not 0 <= turn < len(found.gaps):
        raise InputError(f"nothing follows turn {turn} of a conversation in which the policy writes {found.num_turns}")
    return found.following(turn, sampled)


def script(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], ends: TurnEnds | None = None) -> Script:
    """Return the template's tokens of messages whose open turns, and the implicit last one, the policy writes.

    Raises InputError for messages out of order, for contents that name a mark of the template, and for a template that
    cannot render them or changes earlier turns.
    """
    return scripts(tokenizer, [messages], ends)[0]


def scripts(
    tokenizer: PreTrainedTokenizerBase,
    tasks: Sequence[str | Sequence[Message]],
    ends: TurnEnds | None = None,
    *,
    names: Sequence[str] | None = None,
) -> list[Script]:
    """Return the script of each task, which is a prompt (one turn, encoded by `encode_prompts`) or messages.

    Errors as in `script`; those about messages begin with the task's name from `names`.
    """
    ends = find_turn_ends(tokenizer) if ends is None else ends
    prompts = iter(encode_prompts(tokenizer, [task for task in tasks if isinstance(task, str)], ends))
    talks = {number: task for number, task in enumerate(tasks) if not isinstance(task, str)}
    for number, messages in talks.items():
        with naming(names[number] if names else ""):
            check_task(messages)
            check_rendered(tokenizer, ends, messages)
    pairs = _tokens(tokenizer, ends, [_probed_pieces(tokenizer, messages) for messages in talks.values()])
    conversations = iter(zip(talks.values(), pairs, strict=True))
    return [
        Script(next(prompts), (), ends.trained) if isinstance(task, str) else _script(*next(conversations), ends)
        for task in tasks
    ]


def _probed_pieces(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> list[Piece]:
    """Return the pieces of messages with a probe in place of each open turn."""
    whole = [filled(messages, [probe] * num_turns(messages)) for probe in PROBES]
    plain, thinking = (_pieces(tokenizer, talk, last_alone=num_turns(messages) == 1) for talk in whole)
    if [gap for gap, _ in plain] != [gap for gap, _ in thinking]:
        raise InputError("the chat template writes other text between turns once a turn holds <think>")
    return plain


def _script(messages: Sequence[Message], pairs: Sequence[Tokens], ends: TurnEnds) -> Script:
    """Return the tokens of the template and of given turns, cut at the open turns."""
    open_turns = ([m.is_open for m in messages if m.role == "assistant"] + [True])[-len(pairs) :]
    parts: list[list[int]] = [[]]
    for (gap, response), is_open in zip(pairs, open_turns, strict=True):
        parts[-1] += gap
        if is_open:
            parts.append([])
        else:
            parts[-1] += response
    return Script(parts[0], tuple(parts[1:-1]), ends.trained)


def encode_conversation(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Message],
    ends: TurnEnds | None = None,
    *,
    learn: Learn = "last",
) -> Encoded:
    """Return tokens and loss mask of a whole conversation, which ends with the assistant.

    Targets are the assistant's turns with the token that ends each: the last one, all, or those whose message has
    `learn: true`. `encode(m[:k])` is a prefix of `encode(m[:k+1])`. Raises InputError as `script` does, and for an open
    turn, which has no content to encode.
    """
    return encode_conversations(tokenizer, {"": messages}, ends, learn=learn)[0]


def encode_conversations(
    tokenizer: PreTrainedTokenizerBase,
    conversations: Mapping[str, Sequence[Message]],
    ends: TurnEnds | None = None,
    *,
    learn: Learn = "last",
) -> list[Encoded]:
    """Return `encode_conversation` of many; errors begin with the name of the conversation."""
    ends = find_turn_ends(tokenizer) if ends is None else ends
    pieces = []
    for name, messages in conversations.items():
        with naming(name):
            check_messages(messages)
            if messages[-1].role != "assistant" or any(message.is_open for message in messages):
                raise InputError(
                    "a conversation to train on ends with the assistant, and every message has its content"
                )
            check_rendered(tokenizer, ends, messages)
            pieces.append(_pieces(tokenizer, messages, last_alone=not any(_wanted(messages, learn)[:-1])))
    pairs = _tokens(tokenizer, ends, pieces)
    return [_masked(m, found, learn) for m, found in zip(conversations.values(), pairs, strict=True)]


def _masked(messages: Sequence[Message], pairs: Sequence[Tokens], learn: Learn) -> Encoded:
    wanted = _wanted(messages, learn)[-len(pairs) :]
    tokens: list[int] = []
    mask: list[bool] = []
    for (gap, response), target in zip(pairs, wanted, strict=True):
        tokens += [*gap, *response]
        mask += [False] * len(gap) + [target] * len(response)
    return Encoded(tokens, mask)


def _wanted(messages: Sequence[Message], learn: Learn) -> list[bool]:
    """Return which of the assistant's turns are targets."""
    turns = [message for message in messages if message.role == "assistant"]
    if learn == "marked":
        return [bool(turn.learn) for turn in turns]
    return [learn == "all"] * (len(turns) - 1) + [True]


class _Changed(InputError):
    """A template changes earlier turns once others follow them."""


def _pieces(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], *, last_alone: bool = False
) -> list[Piece]:
    """Return the text of a whole conversation cut at its turns.

    Where earlier text changes once turns follow, the one piece of the last turn if that is enough (`last_alone`), else
    an InputError.
    """
    turns = [at for at, message in enumerate(messages) if message.role == "assistant"]
    try:
        return _cut(tokenizer, messages, turns)
    except _Changed as error:
        if last_alone and len(turns) > 1:
            return _cut(tokenizer, messages, turns[-1:])
        raise InputError(
            f"{error}; use a template that keeps them (one that drops earlier thinking is the usual cause), or train "
            "on the last turn alone (learn: last)"
        ) from error


def _cut(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], turns: Sequence[int]) -> list[Piece]:
    """Return the pieces of some turns, the first with all that is before it."""
    if not tokenizer.chat_template:
        raise InputError("the tokenizer has no chat template, which messages need; set chat_template, or give prompts")
    end, before = template_end(tokenizer), ""
    plain, tools = [message.for_template() for message in messages], messages[0].tools
    pieces: list[Piece] = []
    for at in turns:
        start = render_messages(tokenizer, plain[:at], generation=True, tools=tools)
        gap = _behind(start, before, at - 1)
        whole = render_messages(tokenizer, plain[: at + 1], generation=False, tools=tools)
        response = _behind(whole, start, at)
        if end.token is None:
            response = response.removesuffix(end.tail)
        else:
            mark = tokenizer.convert_ids_to_tokens(end.token)
            text, found, _ = response.partition(mark)
            if not found:
                raise InputError(f"the chat template does not end messages[{at}] with {mark!r}, as it ends other turns")
            response = text + found
        pieces.append((gap, response))
        before = start + response
    return pieces


def _behind(text: str, start: str, at: int) -> str:
    """Return what follows `start`; raise InputError with the position where the template diverges from it."""
    if text.startswith(start):
        return text[len(start) :]
    place = next((n for n, (a, b) in enumerate(zip(text, start, strict=False)) if a != b), min(len(text), len(start)))
    was, becomes = start[place : place + SHOWN_CHARS], text[place : place + SHOWN_CHARS]
    raise _Changed(
        f"the chat template changes earlier turns: what is {was!r} up to messages[{at}] becomes {becomes!r} once the "
        "next turn follows"
    )


def _tokens(
    tokenizer: PreTrainedTokenizerBase, ends: TurnEnds, conversations: Sequence[Sequence[Piece]]
) -> list[list[Tokens]]:
    """Return the tokens of each conversation's pieces, in two calls of the tokenizer."""
    mark = tokenizer.convert_ids_to_tokens(ends.trained)
    pieces = [(number, *piece) for found in conversations for number, piece in enumerate(found)]
    if not pieces:
        return []
    starts = [mark + gap if number else gap for number, gap, _ in pieces]
    gaps = tokenize(tokenizer, starts)
    wholes = tokenize(tokenizer, [start + response for start, (_, _, response) in zip(starts, pieces, strict=True)])
    tokens: list[list[Tokens]] = []
    for (number, _, response), gap, whole in zip(pieces, gaps, wholes, strict=True):
        if number and gap[:1] != [ends.trained]:
            raise InputError(f"the tokenizer does not read {mark!r}, which ends a turn, as one token")
        if not number:
            tokens.append([])
        tokens[-1].append((gap[1:] if number else gap, split_example(tokenizer, ends, gap, whole, response)))
    return tokens


_marks: WeakKeyDictionary[PreTrainedTokenizerBase, tuple[object, frozenset[str]]] = WeakKeyDictionary()


def mark_in(tokenizer: PreTrainedTokenizerBase, ends: TurnEnds, text: str) -> str | None:
    """Return a mark of the template, or an end, that a text names; None if it names none.

    A tokenizer reads it as the mark itself, so that the text ends early, or passes for another turn.
    """
    known = tokenizer.convert_ids_to_tokens(list(ends.ids))
    marks = _template_marks(tokenizer) | {mark for mark in known if mark}  # a config may name ends beyond the tokens
    return next((mark for mark in sorted(marks) if mark in text), None)


def check_rendered(tokenizer: PreTrainedTokenizerBase, ends: TurnEnds, messages: Sequence[Message]) -> None:
    """Raise InputError for a message whose text would be read as a mark of the template, such as another turn.

    And for tools, or calls of them, that the template leaves out.
    """
    check_tools_rendered(tokenizer, messages)
    for position, message in enumerate(messages):
        named = mark_in(tokenizer, ends, _all_text(message))
        if named is not None:
            raise InputError(
                f"messages[{position}] ({message.role}) contains {named!r}, which the chat template writes between "
                "turns: its text could pass for another turn; remove the mark or the row"
            )


def _all_text(message: Message) -> str:
    """Return all that a template may write of a message."""
    if not (message.tool_calls or message.tools or message.name):
        return message.content or ""
    parts = [message.content or "", message.name or "", *message.tool_calls, *message.tools]
    return "\n".join(part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in parts)


def _template_marks(tokenizer: PreTrainedTokenizerBase) -> frozenset[str]:
    """Return the added tokens that the template writes around messages."""
    template = tokenizer.chat_template
    known = _marks.get(tokenizer)
    if known is None or known[0] != template:
        turns = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": PROBE}]
        text = render_messages(tokenizer, [*turns, turns[0]], generation=True) if template else ""
        added = {token.content for token in tokenizer.added_tokens_decoder.values()} - TEXT_MARKS
        known = (template, frozenset(mark for mark in added if mark.strip() and mark in text and mark not in QUESTION))
        _marks[tokenizer] = known
    return known[1]
