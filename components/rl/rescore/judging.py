"""Recorded steps judged again: rewards by the new operators, and advantages of both rewards.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from components.contract.context import StageContext
from components.contract.errors import InputError, PosttrainError
from components.contract.operators import Bound
from components.modeling.serving.further import FurtherModel
from components.rl.batch.batch import FAILED, Batch, Prompt
from components.rl.journal.segments import JournalFolder, Recorded
from components.rl.labels import check_labelled
from components.rl.rescore.batches import rebuilt
from components.rl.rescore.no_policy import JudgingCollector, NoPolicies, NotKept, TextsAlone
from components.rl.run import read_pool
from components.rl.step.context import SlotContext
from components.rl.step.ledger import PassRates, count_outcomes
from components.rl.step.phases import PhasePlan, plan_phases
from components.rl.step.returned import advantages_of, of_kind
from components.rl.step.reward_parts import placed, with_rewards
from components.rl.step.rewarding import combined, parts_of
from components.rl.step.settings import StepSettings

if TYPE_CHECKING:
    from components.rl.params import RLParams

THEN, NOW = "then", "now"
TOLERANCE = 1e-4
"""How far the advantages of the recorded rewards may be from the recorded ones, times their size."""
CHECKED_STEPS = 3


@dataclass(frozen=True)
class Judged:
    """A step with both rewards. All lists have one entry for each trajectory."""

    step: int
    prompts: list[str]
    """Id of the prompt."""
    groups: list[int]
    texts: list[str]
    then: list[float]
    """NaN: no reward."""
    now: list[float]
    advantage_then: list[float]
    advantage_now: list[float]


class Rescorer:
    """Judges the steps of a journal in their order, so that rewards that remember see them as they came."""

    def __init__(
        self,
        ctx: StageContext[RLParams],
        journal: JournalFolder,
        params: RLParams,
        *,
        verifier: Mapping[str, Any] | None,
        further: Mapping[str, Sequence[FurtherModel]],
    ) -> None:
        """`params` are the stage's with the new reward; `verifier` (its name and `settings`) replaces the rows' own."""
        self._journal, self._params, self._further = journal, params, further
        policy = TextsAlone(ctx.input("model").path, params.keep_special_tokens)
        pool = read_pool(ctx, policy)  # type: ignore[arg-type]
        check_labelled([prompt.item for prompt in pool], params.operators())
        self._pool = [_verified_by(prompt, verifier) for prompt in pool] if verifier else pool
        self._by_id = {prompt.item.id: prompt for prompt in self._pool}
        self._judges_anew, self._policy = verifier is not None, policy
        self._phases = plan_phases(params, self._pool, seed=ctx.seed)
        self._ledgers = {key: PassRates() for key in (THEN, NOW)}
        self._memory: dict[tuple[str, int], dict[str, Any]] = {}
        self._asked: Bound | None = None
        self.num_left_out = 0
        """Responses to prompts that are not in the stage's dataset, such as those that the policy wrote."""
        self.by_stage_advantages = True
        """Whether advantages are the stage's; else they are the reward less the mean of its group."""
        self.why = ""
        """Why they are not."""

    def question(self, prompt: str) -> str:
        """Return the text of a prompt, by its id."""
        return self._by_id[prompt].item.prompt

    def steps(self, wanted: Sequence[int]) -> Iterator[Judged]:
        """Yield the wanted steps, whose responses must all be kept."""
        self._check_advantages(wanted)
        for recorded in self._journal.all():
            if recorded.line["step"] in wanted:
                yield self._judged(recorded)

    def _judged(self, recorded: Recorded) -> Judged:
        batch, rows = rebuilt(recorded, self._by_id)
        self.num_left_out += len(recorded.line["responses"]) - len(rows)
        collector = self._collector(recorded)
        count_outcomes(self._ledgers[THEN], batch)
        again = self._rewarded(batch, collector)
        then, now = (self._advantages(one, key, collector) for key, one in ((THEN, batch), (NOW, again)))
        last = batch.last_rows.tolist()
        groups = batch.group.tolist()
        return Judged(
            step=int(recorded.line["step"]),
            prompts=[batch.prompts[groups[row]].item.id for row in last],
            groups=[groups[row] for row in last],
            texts=[batch.texts[row] for row in last],
            then=batch.rewards[last].tolist(),
            now=again.rewards[last].tolist(),
            advantage_then=then[last].tolist(),
            advantage_now=now[last].tolist(),
        )

    def _rewarded(self, batch: Batch, collector: JudgingCollector) -> Batch:
        """Return the batch with outcomes, if a verifier is new, and rewards by the new operators."""
        if self._judges_anew:
            batch = replace(batch, outcomes=collector.outcomes(batch))
        verified = batch.outcomes != FAILED
        kept = batch.select(verified) if not bool(verified.all()) else batch
        slots = self._phase(collector.step).slots
        try:
            parts = parts_of(slots, kept, lambda bound: self._context(bound, NOW, collector))
            rewards = combined(parts, slots.combine, kept, self._context(slots.combine, NOW, collector))
        except NotKept as error:
            assert self._asked is not None
            raise InputError(
                f"rescore: {self._asked.slot} operator {self._asked.shown!r} {error}; it can judge while a stage "
                "trains, as a part of weight 0"
            ) from None
        kept = with_rewards(kept, rewards)
        found = replace(batch, rewards=placed(kept.rewards, verified))
        if len(rewards) == kept.num_tokens != kept.num_responses and bool(verified.all()):
            found = replace(found, token_rewards=kept.token_rewards)
        count_outcomes(self._ledgers[NOW], found)
        return found

    def _advantages(self, batch: Batch, key: str, collector: JudgingCollector) -> Tensor:
        """Return [S], NaN where there is no reward."""
        known = ~batch.rewards.isnan()
        kept = batch.select(known) if not bool(known.all()) else batch
        return placed(self._by_stage(kept, key, collector) if self.by_stage_advantages else _centred(kept), known)

    def _by_stage(self, batch: Batch, key: str, collector: JudgingCollector) -> Tensor:
        slots, batch = self._phase(collector.step).slots, batch.of_learned()
        for bound in slots.annotate:
            batch = of_kind(bound, bound(batch, self._context(bound, key, collector)), Batch)
        for bound in slots.advantages:
            found = advantages_of(bound, bound(batch, self._context(bound, key, collector)), batch)
            batch = found if isinstance(found, Batch) else batch.with_advantages(found)
        return batch.response_mean(batch.advantages)

    def _check_advantages(self, wanted: Sequence[int]) -> None:
        """Find out whether the stage's operators give the recorded advantages for the recorded rewards."""
        checked = 0
        for recorded in self._journal.all():
            if checked == CHECKED_STEPS or not self.by_stage_advantages:
                break
            if recorded.line["step"] in wanted and any(recorded.line["advantages"]):
                checked += 1
                self.why = self._misfit(recorded)
                self.by_stage_advantages = not self.why
        self._memory.clear()

    def _misfit(self, recorded: Recorded) -> str:
        """Return why the stage's operators do not give a step's recorded advantages; empty if they do."""
        batch, rows = rebuilt(recorded, self._by_id)
        places = recorded.line["learned"]
        places = list(range(len(recorded.line["responses"]))) if places is None else places
        recorded_of = dict(zip(places, recorded.line["advantages"], strict=True))
        try:
            found = self._advantages(batch, THEN, self._collector(recorded)).tolist()
        except PosttrainError as error:
            return str(error)
        except Exception as error:  # an operator that does not expect what is NaN here
            return f"{type(error).__name__}: {error}"
        pairs = [(value, recorded_of[row]) for row, value in zip(rows, found, strict=True) if row in recorded_of]
        close = all(then is not None and abs(value - then) <= TOLERANCE * max(1.0, abs(then)) for value, then in pairs)
        return "" if close else "they are not those of rewards alone"

    def _collector(self, recorded: Recorded) -> JudgingCollector:
        step = int(recorded.line["step"]) - 1
        for ledger in self._ledgers.values():
            ledger.step = step
        collector = JudgingCollector(
            self._policy,  # type: ignore[arg-type]
            StepSettings(**recorded.line["settings"]),
            generator=torch.Generator(),
            ledger=self._ledgers[NOW],
            reward=_no_reward,
            max_tokens=self._params.micro_batch_tokens,
        )
        collector.step = step
        return collector

    def _phase(self, step: int) -> PhasePlan:
        return [phase for phase in self._phases if phase.first_step <= step][-1]

    def _context(self, bound: Bound, key: str, collector: JudgingCollector) -> SlotContext:
        self._asked = bound
        return SlotContext(
            step=collector.step,
            num_steps=self._params.num_steps,
            seed=self._phase(collector.step).seed,
            settings=collector.settings,
            memory=self._memory.setdefault((key, id(bound)), {}),
            ledger=self._ledgers[key],
            collector=collector,
            policies=NoPolicies(),  # type: ignore[arg-type]
            pool=self._pool,
            metrics=collector.metrics,
            further=self._further,
        )


def _verified_by(prompt: Prompt, verifier: Mapping[str, Any]) -> Prompt:
    data = {name: value for name, value in prompt.item.data.items() if name != "settings"}
    settings = {"settings": verifier["settings"]} if verifier.get("settings") else {}
    item = prompt.item.model_copy(update={"verifier": verifier["name"], "data": {**data, **settings}})
    return replace(prompt, item=item)


def _centred(batch: Batch) -> Tensor:
    """Return [S]: the reward less the mean of its group."""
    return batch.rewards - batch.group_mean(batch.rewards.double()).float()


def _no_reward(batch: Batch) -> Tensor:
    return torch.full((batch.num_responses,), math.nan)
