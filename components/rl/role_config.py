"""The turns of rollout `roles`: who writes, about what, and whether it is learned from. Does not import torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.questions import check_question
from components.tasks.two_texts import check_two

PROMPT = "prompt"


class RoleTurn(Params):
    """One turn: a role writes its text."""

    role: str = Field(pattern=r"^[a-z][a-z_]*$", max_length=40)
    """Name of the role, once in a rollout: {role} is its text in later questions, and the domain of its prompts."""
    by: Literal["policy", "partner"] = "policy"
    """Who writes: the policy in training, or a frozen model at input `partners`."""
    model: int | None = Field(default=None, ge=0)
    """The partner, by its place at input `partners`, from 0; null: the only one."""
    question: str | None = None
    """What the role is asked; {prompt} and {role} of earlier turns are replaced. Null, of the first turn: the task."""
    judges: str | None = None
    """The earlier role whose text this one judges right or wrong; null: it answers the task."""
    words: tuple[str, str] = ("right", "wrong")
    """The two verdicts of a turn that judges."""
    learned: bool = True
    """Whether a text of the policy is learned from; a partner's never is."""
    samples: int | None = Field(default=None, ge=1)
    """Texts for each text of the turn before; null: the stage's `group_size` where it is learned from, else 1."""
    temperature: float | None = Field(default=None, ge=0)
    """Of a turn that is not learned from, 0 for greedy; null: the step's."""

    @property
    def learns(self) -> bool:
        """Return whether the turn is learned from."""
        return self.by == "policy" and self.learned

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.role == PROMPT:
            raise InputError("turns: {prompt} is the task, so no role has that name")
        if self.model is not None and self.by == "policy":
            raise InputError(f"turn {self.role}: `model` is for `by: partner`; here the policy writes")
        if self.learns and self.temperature is not None:
            raise InputError(
                f"turn {self.role}: what is learned from is drawn at the step's temperature; leave `temperature` out, "
                "or set `learned: false`"
            )
        if self.temperature == 0 and (self.samples or 1) > 1:
            raise InputError(f"turn {self.role}: at temperature 0 all {self.samples} samples are the same text")
        check_two(f"turn {self.role}: words", self.words)
        return self


def check_turns(turns: Sequence[RoleTurn]) -> None:
    """Raise InputError for turns of which one asks about what is not there, or none is learned from."""
    before: dict[str, RoleTurn] = {}
    for turn in turns:
        if turn.role in before:
            raise InputError(f"turns: role {turn.role!r} is there twice; give the second another name")
        if turn.question is None and before:
            raise InputError(f"turn {turn.role}: only the first turn is asked the task itself; give it a `question`")
        check_question(f"turn {turn.role}", turn.question or "", (PROMPT, *before))
        if turn.judges is not None:
            _check_judged(turn, before)
        before[turn.role] = turn
    if not any(turn.learns for turn in turns):
        raise InputError("turns: none is the policy's with `learned: true`, so there is nothing to learn from")


def misfits(turns: Sequence[RoleTurn], num_partners: int) -> Iterator[str]:
    """Yield a line for each turn of a partner that is not at the input, or that could be several."""
    for turn in turns:
        if turn.by != "partner":
            continue
        if turn.model is None and num_partners > 1:
            yield f"turn {turn.role} is one of {num_partners} partners'; say which: `model: 0` is the first"
        elif (turn.model or 0) >= num_partners:
            there = f"there are {num_partners}, counted from 0" if num_partners else "there are none"
            yield f"turn {turn.role}: no model {turn.model or 0} at input partners; {there}"


def _check_judged(turn: RoleTurn, before: dict[str, RoleTurn]) -> None:
    judged = before.get(turn.judges or "")
    if judged is None or judged.judges is not None:
        answering = [role for role, one in before.items() if one.judges is None]
        raise InputError(
            f"turn {turn.role}: judges {turn.judges!r}, which is no earlier role that answers the task; "
            f"there {'is' if len(answering) == 1 else 'are'} {', '.join(answering) or 'none'}"
        )
