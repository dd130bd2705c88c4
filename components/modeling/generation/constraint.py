"""Constrained decoding: only tokens that keep a response in a language may be drawn.

A language is an automaton over characters; a token is allowed where its whole text leads from the row's state to
another one. So tokens of several characters, and texts that several tokenizations write, need nothing of their own.
An engine in another process gets the language in the words of vLLM's structured outputs instead.

Shapes: R rows still running, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.generation.samples import Samples
from components.modeling.generation.sampling import Step

State = Any
"""Whatever an automaton keeps, as long as it can be hashed; None is no state."""
Structured = dict[str, Any]
"""One keyword of vLLM's StructuredOutputsParams, in plain JSON."""


class Automaton(Protocol):
    """A language over characters. Equal automata are one: they share what is known of their states."""

    @property
    def start(self) -> State:
        """Return the state before the first character."""

    def step(self, state: State, character: str) -> State:
        """Return the state after one more character; None where no text of the language goes on so."""

    def may_end(self, state: State) -> bool:
        """Return whether what has been read is a text of the language."""

    def structured_outputs(self) -> Structured:
        """Return the same language as one keyword of vLLM's StructuredOutputsParams: `choice`, `regex` or `grammar`."""

    def __hash__(self) -> int: ...


class Constraint:
    """A logits processor that sees the tokens so far: each row has a state, and what leads nowhere is at -inf."""

    def __init__(self, automata: Sequence[Automaton], pieces: Sequence[str], ends: Collection[int]) -> None:
        """`automata` of each prompt; `pieces` [V] is the text of each token, `ends` are the tokens that end a turn."""
        self._automata, self._pieces, self._ends = automata, pieces, frozenset(ends)
        self._states: dict[int, State] = {}
        """Row -> its state; None once it has ended."""
        self._allowed: dict[tuple[Automaton, State], Tensor] = {}

    def __call__(self, logits: Tensor, place: Step) -> Tensor:
        """Return logits [R, V] with forbidden tokens at -inf; rows that have ended stay as they are.

        Raises InputError where a state allows no token: the tokenizer cannot write what the language wants next.
        """
        chosen = [None] * logits.shape[0] if place.chosen is None else place.chosen.tolist()
        masks = []
        for row, prompt, token in zip(place.rows.tolist(), place.prompt_index.tolist(), chosen, strict=True):
            automaton = self._automata[prompt]
            state = automaton.start if token is None else self._after(automaton, self._states[row], token)
            self._states[row] = state
            masks.append(self._mask(automaton, state))
        return logits.masked_fill(~torch.stack(masks).to(logits.device), float("-inf"))

    def of_prompts(self, start: int, end: int) -> Constraint:
        """Return the constraint of some of the prompts, which count from 0 there."""
        return Constraint(self._automata[start:end], self._pieces, self._ends)

    def structured_outputs(self) -> tuple[list[Structured], list[int]]:
        """Return the distinct languages, and for each prompt the place of its own among them."""
        places: dict[Automaton, int] = {}
        found = [places.setdefault(automaton, len(places)) for automaton in self._automata]
        return [automaton.structured_outputs() for automaton in places], found

    def check(self, samples: Samples) -> None:
        """Raise InputError for a response that leaves its language: what drew it could not keep to it.

        One that the token limit cut may stop anywhere on the way.
        """
        rows = zip(samples.prompt_index.tolist(), samples.responses(), samples.finished.tolist(), strict=True)
        for prompt, tokens, finished in rows:
            automaton = self._automata[prompt]
            written = tokens[:-1] if finished else tokens
            text = "".join(self._pieces[token] for token in written)
            state = _read(automaton, automaton.start, text)
            if state is None or (finished and not automaton.may_end(state)):
                raise InputError(
                    f"constrained decoding: the engine wrote {text!r:.120}, which is not of the language; can its "
                    "tokenizer write all of it? `backend: {sampler: native}` says where it cannot"
                )

    def _after(self, automaton: Automaton, state: State, token: int) -> State:
        if state is None or token in self._ends:
            return None
        return _read(automaton, state, self._pieces[token])

    def _mask(self, automaton: Automaton, state: State) -> Tensor:
        if state is None:
            return torch.ones(len(self._pieces), dtype=torch.bool)
        known = self._allowed.get((automaton, state))
        if known is None:
            known = self._allowed[automaton, state] = torch.tensor(
                [
                    automaton.may_end(state)
                    if token in self._ends
                    else bool(piece) and _read(automaton, state, piece) is not None
                    for token, piece in enumerate(self._pieces)
                ]
            )
            if not bool(known.any()):
                raise InputError(f"constrained decoding: no token of this tokenizer goes on from {state!r:.120}")
        return known


def _read(automaton: Automaton, state: State, text: str) -> State:
    """Return the state after a text, or None where it leaves the language."""
    reached: State = state
    for character in text:
        if reached is None:
            return None
        reached = automaton.step(reached, character)
    return reached
