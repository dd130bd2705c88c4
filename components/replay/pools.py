"""Sources of examples: verified demonstrations, recorded rollouts, fresh samples of the model itself.

Each source yields rows of kind "demonstrations" with their "origin", and only responses that the verifier accepted.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from components.contract.context import Input
from components.contract.errors import InputError
from components.contract.messages import num_turns, written
from components.measure.sampling import sample_and_verify
from components.modeling.generation.sampler import Sampler
from components.replay.params import OwnSamples
from components.tasks.item import Item, item_from_row
from components.tasks.rows import iter_rows
from components.tasks.seeds import derive_rng, derive_seed
from components.tasks.verify import verify

Row = dict[str, Any]
Turns = tuple[str, ...]


@dataclass
class Tally:
    """Outcomes of the responses examined, per domain."""

    right: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Pools:
    """All data for rehearsal, by domain."""

    demonstrations: Mapping[str, list[tuple[Item, Turns]]]
    """Responses of earlier datasets, not yet verified; for conversations all turns of the policy, the response last."""
    rollouts: Mapping[str, list[tuple[Item, Turns]]]
    """Recorded right responses, the latest first."""
    prompts: Mapping[str, list[Item]]
    """Prompts to sample on: from the rollouts, or for a domain without rollouts from the datasets."""

    @property
    def domains(self) -> list[str]:
        """Return all domains, sorted."""
        return sorted({*self.demonstrations, *self.rollouts, *self.prompts})


def read_pools(datasets: Sequence[Input], rollouts: Sequence[Input]) -> Pools:
    """Read all rows; raise InputError if there are none."""
    demonstrations: dict[str, list[tuple[Item, Turns]]] = defaultdict(list)
    recorded: dict[str, list[tuple[int, Item, Turns]]] = defaultdict(list)
    seen: dict[str, dict[str, Item]] = defaultdict(dict)
    known: dict[str, dict[str, Item]] = defaultdict(dict)
    for artifact in datasets:
        for where, row in iter_rows(artifact.path):
            item = item_from_row(row, f"{artifact.source}: {where}")
            known[item.domain].setdefault(item.id, item)
            if "response" in row:
                demonstrations[item.domain].append((item, _turns(row, item, where)))
    for artifact in rollouts:
        for where, row in iter_rows(artifact.path):
            item = item_from_row(row, f"{artifact.source}: {where}")
            seen[item.domain].setdefault(item.id, item)
            if row["outcome"] == "right":
                recorded[item.domain].append((row["step"], item, _turns(row, item, where)))
    if not known and not seen:
        raise InputError("nothing to rehearse: connect input 'datasets' or input 'rollouts', with rows")
    latest = {
        domain: [(item, turns) for _, item, turns in sorted(found, key=lambda entry: -entry[0])]
        for domain, found in recorded.items()
    }
    prompts = {domain: [found[name] for name in sorted(found)] for domain, found in {**known, **seen}.items()}
    return Pools(dict(demonstrations), latest, prompts)


def gold(pools: Pools, domain: str, seed: int, tally: Tally) -> Iterator[Row]:
    """Yield demonstrations that their verifier accepts, in random order; each is verified only when requested."""
    pairs = pools.demonstrations.get(domain, [])
    for item, turns in _shuffled(pairs, derive_rng(seed, "gold", domain)):
        verdict = verify(item, turns[-1])
        counter = tally.failed if verdict.failed else tally.right if verdict.right else tally.rejected
        counter[domain] += 1
        if verdict.right:
            yield _row(item, turns, "gold")


def recorded_rollouts(pools: Pools, domain: str) -> Iterator[Row]:
    """Yield recorded right responses, the latest first, as they are closest to the current model's."""
    for item, turns in pools.rollouts.get(domain, []):
        yield _row(item, turns, "rollouts")


def own(
    pools: Pools,
    domain: str,
    sampler: Sampler,
    config: OwnSamples,
    seed: int,
    tally: Tally,
    progress: Callable[[int, int], None],
) -> Iterator[Row]:
    """Yield fresh responses of the model that are finished and verified right (rejection sampling).

    They come in rounds of one per prompt, so that the first ones cover as many prompts as possible.
    """
    if not config.num_samples or domain not in pools.prompts:
        return
    rng = derive_rng(seed, "own", domain)
    items = _shuffled(pools.prompts[domain], rng)[: config.num_prompts]
    drawn = sample_and_verify(
        sampler, items, config.sampling(), seed=derive_seed(seed, "own", domain), progress=progress
    )
    for position in range(config.num_samples):
        for outcome in drawn:
            verdict = outcome.verdicts[position]
            counter = tally.failed if verdict.failed else tally.right if verdict.right else tally.rejected
            counter[domain] += 1
            if verdict.right and outcome.finished[position]:
                yield _row(outcome.item, outcome.written(position), "own")


def take(rows: Iterable[Row], count: int, max_per_prompt: int) -> list[Row]:
    """Take up to `count` distinct rows with at most `max_per_prompt` of each prompt, in the order they come."""
    taken: list[Row] = []
    answers: dict[str, set[Turns]] = defaultdict(set)
    for row in rows:
        known, answer = answers[row["id"]], (*row.get("turns", ()), row["response"])
        if answer in known or len(known) == max_per_prompt:
            continue
        known.add(answer)
        taken.append(row)
        if len(taken) == count:  # checked before the next row, which may cost a verification
            break
    return taken


def _row(item: Item, turns: Turns, origin: str) -> Row:
    return {**item.row(), **written(turns), "origin": origin}


def _turns(row: Row, item: Item, where: str) -> Turns:
    """Return the policy's turns in a row; raise InputError if their number is not the item's number of open turns."""
    turns = (*(row.get("turns") or ()), row["response"])
    wanted = num_turns(item.messages) if item.messages else 1
    if len(turns) != wanted:
        raise InputError(f"{where}: the row has {len(turns)} turns, and the policy has {wanted} to write")
    return turns


def _shuffled(values: Sequence[Any], rng: random.Random) -> list[Any]:
    return rng.sample(list(values), len(values))
