"""Languages of answers, character by character: what constrained decoding may write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from components.tasks.domains.worlds.plans import STEPS, Type

FAR = 99


@dataclass(frozen=True)
class Trie:
    """Some texts and no others; a state is what has been read."""

    texts: tuple[str, ...]
    start: str = ""

    def step(self, state: str, character: str) -> str | None:
        """Return the text so far, if one of the texts begins with it."""
        read = state + character
        return read if any(text.startswith(read) for text in self.texts) else None

    def may_end(self, state: str) -> bool:
        """Return whether all of a text has been read."""
        return state in self.texts

    def structured_outputs(self) -> dict[str, Any]:
        """Return the texts in the words of vLLM's structured outputs."""
        return {"choice": list(self.texts)}


@dataclass(frozen=True)
class PlanState:
    """How far an answer has come."""

    opening: str
    """What is left of the text before the plan."""
    has: Type = "word"
    """Type of the value before the step that is being written."""
    steps: int = 0
    """Steps before it."""
    name: str = ""
    """What is written of its name."""


@dataclass(frozen=True)
class Plans:
    """Plans of `pipelines` whose types fit, that end in the type wanted, and have at most so many steps.

    No state is a dead end: a name is begun only if some plan goes on from it. Source: OpenAGI, constrained generation
    by a trie of the modules' names and their types.
    """

    wanted: Type
    max_steps: int
    opening: str = ""

    @property
    def start(self) -> PlanState:
        """Return the state before the first character."""
        return PlanState(self.opening)

    def step(self, state: PlanState, character: str) -> PlanState | None:
        """Return the state after one more character."""
        if state.opening:
            return PlanState(state.opening[1:]) if character == state.opening[0] else None
        if character == " ":
            return self._next(state)
        name = state.name + character
        going_on = any(known.startswith(name) and self._fits(known, state) for known in STEPS)
        return PlanState("", state.has, state.steps, name) if going_on else None

    def may_end(self, state: PlanState) -> bool:
        """Return whether the plan so far ends in the type wanted."""
        whole = not state.opening and state.name in STEPS and self._fits(state.name, state)
        return whole and STEPS[state.name].gives == self.wanted

    def structured_outputs(self) -> dict[str, Any]:
        """Return the plans as a grammar in the words of vLLM's structured outputs: EBNF as GBNF writes it.

        Rule `word-2` is what may follow on a word with two steps written: a step that ends the plan, or one and a space
        and what follows on it.
        """
        first = PlanState("")
        rules, ahead = [f"root ::= {json.dumps(self.opening)} {_rule(first)}"], [first]
        for state in ahead:  # grows with what is reached
            ways = []
            for name, after in self._ways(state):
                ways.append(json.dumps(name if after is None else f"{name} ") + (f" {_rule(after)}" if after else ""))
                if after is not None and after not in ahead:
                    ahead.append(after)
            rules.append(f"{_rule(state)} ::= {' | '.join(ways)}")
        return {"grammar": "\n".join(rules)}

    def _ways(self, state: PlanState) -> Iterator[tuple[str, PlanState | None]]:
        """Yield each step that may be written next, with the state behind it, or None where the plan ends with it."""
        for name in STEPS:
            if not self._fits(name, state):
                continue
            if STEPS[name].gives == self.wanted:
                yield name, None
            after = self._next(PlanState("", state.has, state.steps, name))
            if after is not None:
                yield name, after

    def _next(self, state: PlanState) -> PlanState | None:
        """Return the state after a whole name and a space, where another step may follow."""
        if state.name not in STEPS or not self._fits(state.name, state):
            return None
        after = PlanState("", STEPS[state.name].gives, state.steps + 1)
        return after if any(self._fits(name, after) for name in STEPS) else None

    def _fits(self, name: str, state: PlanState) -> bool:
        """Return whether a step can stand here, and the steps after it can still reach the type wanted."""
        left = self.max_steps - state.steps - 1
        return STEPS[name].takes == state.has and _distance(STEPS[name].gives, self.wanted) <= left


def _rule(state: PlanState) -> str:
    return f"{state.has}-{state.steps}"


def _distance(has: Type, wanted: Type) -> int:
    """Return the fewest steps from one type to another."""
    reached, steps = {has}, 0
    while wanted not in reached:
        following = reached | {step.gives for step in STEPS.values() if step.takes in reached}
        if following == reached:
            return FAR
        reached, steps = following, steps + 1
    return steps
