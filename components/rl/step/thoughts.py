"""A response without its answer: the tokens up to the last opening tag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.tasks.blocks import Grammar, blocks, token_ends

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch
    from components.rl.step.collector import Collector


def thoughts_of(batch: Batch, collector: Collector, tag: str) -> list[list[int] | None]:
    """Return for each response its tokens up to its last opening tag, the tag included; None if it has none.

    Where the tag ends inside a token, the tokens before that one are followed by the rest of the text, encoded anew.
    """
    grammar, rows = Grammar(tags=(tag,), closing=False), batch.tokens.split(batch.lengths.tolist())
    known: dict[tuple[int, ...], list[int] | None] = {}
    found = []
    for row, text in zip(rows, batch.texts, strict=True):
        tokens = tuple(row.tolist())
        if tokens not in known:
            known[tokens] = _thought(tokens, text, collector, grammar)
        found.append(known[tokens])
    return found


def before_answers(batch: Batch, collector: Collector, tag: str) -> list[list[int]]:
    """Return for each response the tokens of its prompt and of its thought; empty if it has no opening tag."""
    prompts = [list(prompt.tokens) for prompt in batch.prompts]
    thoughts = thoughts_of(batch, collector, tag)
    return [
        [] if thought is None else prompts[group] + thought
        for group, thought in zip(batch.group.tolist(), thoughts, strict=True)
    ]


def _thought(tokens: tuple[int, ...], text: str, collector: Collector, grammar: Grammar) -> list[int] | None:
    found = blocks(text, grammar)
    if not found:
        return None
    begin = found[-1].inside[0]
    ends = token_ends(text, collector.pieces(tokens))
    if begin in ends:
        return list(tokens[: ends.index(begin) + 1])
    whole = [at for at, end in enumerate(ends) if end < begin]
    last = whole[-1] if whole else -1
    at = ends[last] if whole else 0
    return [*tokens[: last + 1], *collector.encode(text[at:begin])]
