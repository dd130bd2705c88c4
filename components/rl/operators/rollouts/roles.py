"""Several roles in a step: what one writes stands in the question of the next, such as actor, critic and reviser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field, model_validator

from components.contract.further import PARTNERS
from components.contract.operators import OperatorSpec
from components.rl.configs import SlotConfig
from components.rl.role_config import RoleTurn, check_turns, misfits
from components.rl.step.context import SlotContext
from components.tasks.slots import VERIFIER

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector


class RolesConfig(SlotConfig):
    """The turns, in order."""

    reads: ClassVar[frozenset[str]] = frozenset({"outcomes"})
    writes: ClassVar[frozenset[str]] = frozenset({"before_s", "after_s"})
    turns: tuple[RoleTurn, ...] = Field(min_length=1)
    """Who writes, one after another; each is asked about every text of the turn before."""
    verdict: Annotated[OperatorSpec, VERIFIER] = OperatorSpec(name="exact")
    """The verifier of turns that judge: it compares with the one of their words that is due."""

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the port of the partners, where a turn is one's."""
        return (PARTNERS,) if any(turn.by == "partner" for turn in self.turns) else ()

    def misfits(self, num_partners: int) -> Iterator[str]:
        """Yield a line for each turn of a partner that is not connected."""
        yield from misfits(self.turns, num_partners)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        check_turns(self.turns)
        self.verdict.resolve()
        return self


def roles(prompts: Sequence[Prompt], collector: Collector, context: SlotContext, *, config: RolesConfig) -> Batch:
    """Let the roles write in turn and return the rows of the turns that are learned from, a group for each question.

    A turn that answers has the verifier of the task, whoever asked it; one that judges is right where its verdict on
    the earlier text is the verifier's. What was refused, or could not be verified, is asked nothing further. Marks of
    a row: `before_s`, 1 or 0 by the last answer before it (0 without one), and `after_s`, the share of right ones among
    the next answers after it (its own outcome where none follows); NaN where nothing could be verified. A partner is
    asked with a seed of its own for step, draw and turn, so that a resumed stage gets the same texts.
    A question behind which no answer fits is not asked; control marks of an earlier text are broken in it.
    Metrics, by role: `<role>_right`; of a role that answers again `<role>_mended` and `<role>_spoiled`, the shares of
    wrong answers that became right and of right ones that became wrong; `partner_texts`, `questions_too_long`.
    Source: Xi et al. 2025, Critique-RL: actor, critic and refinement; turns in general are ours.
    """
    from components.rl.step.role_metrics import draw_number, tell
    from components.rl.step.role_turns import learned_rows, play

    draw = draw_number(context.memory, context.step)
    played = play(prompts, collector, context, config.turns, config.verdict, draw)
    tell(played, context.metrics, context.memory["sums"])
    batch, before_s, after_s = learned_rows(played)
    return batch.with_extras(before_s=before_s, after_s=after_s)
