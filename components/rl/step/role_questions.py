"""What a turn of rollout `roles` asks, who is asked, and which questions fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from components.contract.errors import InputError
from components.contract.further import PARTNERS
from components.contract.operators import OperatorSpec
from components.judges.fencing import without_control
from components.modeling.models.policy import Policy
from components.modeling.serving.further import FurtherModel
from components.modeling.text.control_marks import control_marks
from components.modeling.text.turns import scripts
from components.rl.batch.batch import Prompt
from components.rl.role_config import PROMPT, RoleTurn, misfits
from components.rl.step.collector import Collector
from components.rl.step.context import SlotContext
from components.tasks.item import item_id
from components.tasks.questions import filled


class Asker:
    """Writes the questions of one turn for the model that is asked."""

    def __init__(self, turn: RoleTurn, collector: Collector, context: SlotContext, verdict: OperatorSpec) -> None:
        self._turn, self._collector, self._context, self._verdict = turn, collector, context, verdict

    def question(self, task: Prompt, texts: Mapping[str, str], worth: Mapping[str, float]) -> Prompt:
        """Return what is asked about the texts of earlier roles, in which control marks are broken."""
        turn, item = self._turn, task.item
        if turn.question is None:
            return task
        shown = {role: text if role == PROMPT else without_control(text, self._marks) for role, text in texts.items()}
        words = filled(turn.question, shown)
        changes: dict[str, Any] = {"domain": turn.role, "prompt": words, "messages": (), "answer": item.answer}
        if turn.judges is not None:
            changes |= {
                "answer": turn.words[worth[turn.judges] != 1],
                "verifier": self._verdict.name,
                "data": {"settings": self._verdict.settings} if self._verdict.settings else {},
            }
        changes["id"] = item_id(turn.role, words, changes["answer"])
        tokens = tuple(self._collector.encode_prompt(words))
        return Prompt(item.model_copy(update=changes), tokens, of=task.of or item.id)

    def fitting(self, prompts: Sequence[Prompt]) -> list[bool]:
        """Return which questions leave room for an answer; a server refuses by itself what it has no room for."""
        if not prompts or (policy := self._policy) is None:
            return [True] * len(prompts)
        if self._turn.by == "policy":
            lengths: Iterator[int] = (len(prompt.tokens) for prompt in prompts)
        else:
            assert policy.tokenizer is not None
            asked = scripts(policy.tokenizer, [prompt.item.task for prompt in prompts], policy.ends)
            lengths = (len(script.opening) for script in asked)
        room = policy.max_positions - self._context.settings.max_new_tokens
        return [length <= room for length in lengths]

    @property
    def partner(self) -> FurtherModel:
        """Return the partner whose turn it is; raise InputError where it is not connected."""
        models = self._context.further[PARTNERS]
        for why in misfits([self._turn], len(models)):
            raise InputError(f"rl: {why}")
        return models[self._turn.model or 0]

    @cached_property
    def _policy(self) -> Policy | None:
        """Return the weights that are asked; None of a server."""
        if self._turn.by == "policy":
            return self._collector.policy
        return getattr(self.partner, "policy", None)

    @cached_property
    def _marks(self) -> Sequence[str]:
        return () if self._policy is None or self._policy.tokenizer is None else control_marks(self._policy.tokenizer)
