"""The pass-rate ledger: how often each prompt was tried, by which policy, at which step and with which outcome."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch

TOTALS, VISITS = "passrates.jsonl", "visits.jsonl"


@dataclass
class PassRate:
    """Outcomes of one prompt so far, over all policies."""

    prompt_id: str
    domain: str
    num_samples: int = 0
    num_right: int = 0
    num_wrong: int = 0
    num_failed: int = 0

    @property
    def pass_rate(self) -> float | None:
        """Return the share of right samples among verified ones; None if none was verified yet."""
        return _share(self.num_right, self.num_wrong)

    def count(self, right: int, wrong: int, failed: int) -> None:
        """Add outcomes of new samples."""
        self.num_samples += right + wrong + failed
        self.num_right += right
        self.num_wrong += wrong
        self.num_failed += failed


@dataclass
class Visit:
    """Outcomes of one prompt at one step of one policy."""

    policy: str
    """Name of the stage's starting policy; with `step` it identifies the policy that sampled."""
    step: int
    """Steps done when it sampled: `context.step` at that time."""
    prompt_id: str
    domain: str
    num_right: int = 0
    num_wrong: int = 0
    num_failed: int = 0
    reward_sum: float = 0.0
    """Over verified responses, right or wrong."""
    reward_squares: float = 0.0
    """Sum of their squared rewards."""
    mean_abs_advantage: float | None = None
    """Mean |A| over the tokens of each learned response, averaged over these responses; None without any."""

    @property
    def pass_rate(self) -> float | None:
        """Return the share of right samples among verified ones; None if none was verified."""
        return _share(self.num_right, self.num_wrong)


class PassRates:
    """Outcomes of all prompts tried: totals by prompt id in the order of the first try, and visits."""

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]] = (),
        visits: Iterable[Mapping[str, Any]] = (),
        *,
        policy: str = "policy",
        step: int = 0,
    ) -> None:
        """`policy` and `step` identify who samples from now on."""
        self.policy, self.step, self.first_step = policy, step, 0
        self._by_id = {row["prompt_id"]: PassRate(**row) for row in rows}
        self._earlier: dict[str, PassRate] = {}
        self._visits: dict[tuple[str, int, str], Visit] = {}
        self._enter(visits)
        self._num_told = len(self._visits)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[PassRate]:
        return iter(self._by_id.values())

    def get(self, prompt_id: str) -> PassRate | None:
        """Return the outcomes of a prompt, or None if it was never tried."""
        return self._by_id.get(prompt_id)

    def visits(self, *, since_step: int | None = None, prompt_id: str | None = None) -> list[Visit]:
        """Return visits in the order of their first sample.

        `since_step`: only visits of this stage at that step (counted as `context.step`) or later; by default all,
        including an earlier stage's. `prompt_id`: only visits of that prompt. Visits before `restart` are left out.
        """
        since_step = max(since_step or 0, self.first_step) if self.first_step else since_step
        found: Iterable[Visit] = self._visits.values()
        if since_step is not None:  # the newest come last, in the order of their steps
            recent = takewhile(
                lambda visit: visit.policy == self.policy and visit.step >= since_step, reversed(self._visits.values())
            )
            found = reversed(list(recent))
        return [visit for visit in found if prompt_id is None or visit.prompt_id == prompt_id]

    def restart(self) -> None:
        """Hide all outcomes so far from operators; `rows` and `visit_rows` still have them."""
        self._earlier = {row["prompt_id"]: PassRate(**row) for row in self.rows()}
        self._by_id, self.first_step = {}, self.step

    def add(self, prompt_id: str, domain: str, *, right: int = 0, wrong: int = 0, failed: int = 0) -> None:
        """Count outcomes of new samples at the current step."""
        self._by_id.setdefault(prompt_id, PassRate(prompt_id, domain)).count(right, wrong, failed)
        visit = self._visit(prompt_id, domain)
        visit.num_right += right
        visit.num_wrong += wrong
        visit.num_failed += failed

    def add_rewards(self, prompt_id: str, domain: str, rewards: Iterable[float]) -> None:
        """Add the rewards of verified responses to the visit of the current step."""
        visit = self._visit(prompt_id, domain)
        for reward in rewards:
            visit.reward_sum += reward
            visit.reward_squares += reward * reward

    def set_advantage(self, prompt_id: str, domain: str, mean_abs: float) -> None:
        """Set the mean absolute advantage of the visit of the current step."""
        self._visit(prompt_id, domain).mean_abs_advantage = mean_abs

    def rows(self) -> list[dict[str, Any]]:
        """Return one JSON object per prompt: the rows of `passrates.jsonl`."""
        merged = {prompt_id: dict(vars(entry)) for prompt_id, entry in self._earlier.items()}
        for entry in self:
            row = merged.setdefault(entry.prompt_id, dict(vars(PassRate(entry.prompt_id, entry.domain))))
            for count in ("num_samples", "num_right", "num_wrong", "num_failed"):
                row[count] += vars(entry)[count]
        return list(merged.values())

    def to_json(self) -> dict[str, Any]:
        """Return what `resumed` needs beside the visits."""
        return {"first_step": self.first_step}

    def fresh_visits(self) -> list[dict[str, Any]]:
        """Return the visits since the last call; call it between steps, when they no longer change."""
        count = len(self._visits) - self._num_told
        self._num_told = len(self._visits)
        return [dict(vars(visit)) for visit in reversed(list(islice(reversed(self._visits.values()), count)))]

    def resumed(self, visits: Iterable[Mapping[str, Any]], *, first_step: int) -> PassRates:
        """Enter the visits of an earlier attempt into the ledger that it began with; totals follow from them."""
        entered = self._enter(visits)
        for visit in entered:
            if visit.step < first_step:
                self._count(visit)
        if first_step:
            self.step = first_step
            self.restart()
        for visit in entered:
            if visit.step >= first_step:
                self._count(visit)
        self._num_told = len(self._visits)
        return self

    def _count(self, visit: Visit) -> None:
        """Add a visit's samples to the totals; one without any is of responses that were not this policy's."""
        right, wrong, failed = visit.num_right, visit.num_wrong, visit.num_failed
        if right + wrong + failed:
            total = self._by_id.setdefault(visit.prompt_id, PassRate(visit.prompt_id, visit.domain))
            total.count(right, wrong, failed)

    def _enter(self, visits: Iterable[Mapping[str, Any]]) -> list[Visit]:
        entered = [Visit(**row) for row in visits]
        self._visits.update({(visit.policy, visit.step, visit.prompt_id): visit for visit in entered})
        return entered

    def visit_rows(self) -> list[dict[str, Any]]:
        """Return one JSON object per visit: the rows of `visits.jsonl`."""
        return [dict(vars(visit)) for visit in self._visits.values()]

    def _visit(self, prompt_id: str, domain: str) -> Visit:
        key = (self.policy, self.step, prompt_id)
        return self._visits.setdefault(key, Visit(self.policy, self.step, prompt_id, domain))


def read_pass_rates(folder: Path, *, policy: str) -> PassRates:
    """Return the ledger of a Metrics folder; `policy` names who samples from now on.

    Only rl stages write visits; the ledgers of other stages have totals only. Raises InputError if there is no ledger,
    or names the line that is not a ledger row.
    """
    if not (folder / TOTALS).is_file():
        raise InputError(f"{folder}: no {TOTALS}; give the metrics of an rl or evaluate stage")
    known = set(PassRate.__dataclass_fields__)
    totals = [{key: row[key] for key in known} for row in _read(folder / TOTALS, known)]
    visits = _read(folder / VISITS, set(Visit.__dataclass_fields__)) if (folder / VISITS).is_file() else []
    return PassRates(totals, visits, policy=policy)


def _read(path: Path, needed: set[str]) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}:{number}: not JSON: {error}") from error
        if not isinstance(row, dict) or not needed <= set(row):
            raise InputError(f"{path}:{number}: not a row of a pass-rate ledger; it needs {', '.join(sorted(needed))}")
        rows.append(row)
    return rows


def _share(right: int, wrong: int) -> float | None:
    return right / (right + wrong) if right + wrong else None


def count_outcomes(ledger: PassRates, batch: Batch) -> None:
    """Enter the outcomes and rewards (NaN: none) of the policy's own responses; unlabelled ones have rewards alone."""
    from components.rl.batch.batch import FAILED, RIGHT, UNSCORED, WRONG

    counted = {RIGHT: "right", WRONG: "wrong", FAILED: "failed"}
    tried: dict[int, list[tuple[int, float]]] = {}
    values = (batch.group, batch.outcomes, batch.rewards, batch.external)
    columns = [batch.of_traces(value_s).tolist() for value_s in values]
    for group, outcome, reward, external in zip(*columns, strict=True):
        if not external:
            tried.setdefault(group, []).append((outcome, reward))
    for group, results in tried.items():
        item = batch.prompts[group].item
        counts = Counter(counted[outcome] for outcome, _ in results if outcome != UNSCORED)
        ledger.add(item.id, item.domain, **counts)
        ledger.add_rewards(item.id, item.domain, [reward for _, reward in results if reward == reward])
