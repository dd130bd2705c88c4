"""Prompts of too many tokens for the model at input `policy`: dropped, cut or refused before any other check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.tasks.source import BadRow, SourceRow, SourceRows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from components.curate.params import CurateParams

OVERLONG = "overlong"
"""Why a row is dropped whose prompt has too many tokens."""


class PromptLengths:
    """Counts the tokens of prompts as the chat template lays them out."""

    def __init__(self, context: StageContext[CurateParams]) -> None:
        """Raise InputError for a stage without a model whose tokens could be counted."""
        from components.modeling.models.folder import load_tokenizer

        given = context.inputs("policy")
        tokenizer = load_tokenizer(given[0].path) if given else None
        if tokenizer is None:
            raise InputError(
                "max_prompt_tokens: connect the model whose tokens count (`in: {policy: ...}`), with its tokenizer"
            )
        self._tokenizer: PreTrainedTokenizerBase = tokenizer
        most = context.params.max_prompt_tokens
        assert most is not None, "or nothing is counted"
        self._most, self._overlong, self._context = most, context.params.overlong, context
        self._counts = {"left out": 0, "cut on the left": 0}
        self._first = ""

    def fitting(self, opened: SourceRows) -> SourceRows:
        """Return a source whose rows fit: cut ones are shorter, those that are left out come as bad rows."""
        return replace(opened, rows=self._rows(opened.rows))

    def tell(self) -> None:
        """Tell how many prompts were too long, with the first, if any were."""
        done = " and ".join(f"{count} {word}" for word, count in self._counts.items() if count)
        if done:
            limit = f"{self._most} tokens (max_prompt_tokens)"
            self._context.tell(f"prompts of more than {limit}: {done}; the first, {self._first}")

    def _rows(self, rows: Iterator[SourceRow | BadRow]) -> Iterator[SourceRow | BadRow]:
        for row in rows:
            if isinstance(row, BadRow) or row.text is not None or (size := self._size(row)) <= self._most:
                yield row
                continue
            says = f"a prompt of {size} tokens"
            if self._overlong == "refuse":
                raise InputError(
                    f"{row.where}: {says}, and at most {self._most} fit (max_prompt_tokens); shorten it, raise the "
                    "limit, or set overlong: drop or truncate_left"
                )
            self._first = self._first or f"{row.where}, has {size}"
            cut = self._cut(row, size) if self._overlong == "truncate_left" else None
            self._counts["left out" if cut is None else "cut on the left"] += 1
            yield BadRow(row.where, says, OVERLONG) if cut is None else cut

    def _size(self, row: SourceRow) -> int:
        from components.modeling.text.turns import scripts

        (task,) = scripts(self._tokenizer, [row.messages or row.prompt], names=[row.where])
        return len(task.opening)

    def _cut(self, row: SourceRow, size: int) -> SourceRow | None:
        """Return the row with the end of its prompt; None for a conversation, or where nothing would be left."""
        if row.messages:
            return None
        prompt = row.prompt
        while size > self._most:
            offsets = self._tokenizer(prompt, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
            over = size - self._most
            prompt = prompt[max(offsets[over][0], 1) :] if over < len(offsets) else ""
            if not prompt.strip():
                return None
            size = self._size(replace(row, prompt=prompt))
        return replace(row, prompt=prompt)


def prompt_lengths(context: StageContext[CurateParams]) -> PromptLengths | None:
    """Return what sorts prompts by their length, if the stage has a limit."""
    return None if context.params.max_prompt_tokens is None else PromptLengths(context)
