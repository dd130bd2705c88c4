"""Recorded steps as batches again: what rewards read of responses, without what only the policy of then knew.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from components.rl.batch.batch import Batch, Prompt, new_batch
from components.rl.journal.lines import LETTERS
from components.rl.journal.segments import Recorded

OUTCOMES = {letter: code for code, letter in LETTERS.items()}


def rebuilt(recorded: Recorded, pool: Mapping[str, Prompt]) -> tuple[Batch, list[int]]:
    """Return the rows of a step whose prompts are in the pool, by item id, and their places in the step's line.

    Outcomes and rewards are the recorded ones. Log-probabilities and entropies, which were not kept, are NaN.
    """
    line = recorded.line
    sizes = zip(line["prompts"], line["groups"], strict=True)
    owners = [(at, name) for at, (name, size) in enumerate(sizes) for _ in range(size)]
    rows = [row for row, (_, name) in enumerate(owners) if name in pool]
    groups = list(dict.fromkeys(owners[row] for row in rows))
    place = {owner: at for at, owner in enumerate(groups)}
    contents = [recorded.responses[line["responses"][row]] for row in rows]
    tokens = [content["tokens"] for content in contents]
    lengths = torch.tensor([len(ids) for ids in tokens], dtype=torch.long)
    cut = set(line["cut"])
    unknown = torch.full((int(lengths.sum()),), torch.nan)
    batch = new_batch(
        [pool[name] for _, name in groups],
        [content["text"] for content in contents],
        group=torch.tensor([place[owners[row]] for row in rows], dtype=torch.long),
        lengths=lengths,
        finished=torch.tensor([row not in cut for row in rows], dtype=torch.bool),
        tokens=torch.tensor([token for ids in tokens for token in ids], dtype=torch.long),
        old_logprobs=unknown,
        entropies=unknown,
    )
    rewards = [line["rewards"][row] for row in rows]
    changes: dict[str, Any] = {
        "outcomes": torch.tensor([OUTCOMES[line["outcomes"][row]] for row in rows], dtype=torch.long),
        "rewards": torch.tensor([torch.nan if value is None else value for value in rewards], dtype=torch.float32),
    }
    if "traces" in line:
        traces = [line["traces"][row] for row in rows]
        changes["trace"] = torch.unique_consecutive(torch.tensor(traces), return_inverse=True)[1]
    if any("context" in content for content in contents):
        given = zip(contents, batch.group.tolist(), strict=True)
        changes["context"] = tuple(
            tuple(content.get("context", batch.prompts[group].tokens)) for content, group in given
        )
    if any("earlier" in content for content in contents):
        changes["earlier_turns"] = tuple(tuple(content.get("earlier", ())) for content in contents)
    if any("spans" in content for content in contents):
        changes |= _marks(contents)
    return replace(batch, **changes), rows


def _marks(contents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return author, turn and learned of all tokens."""
    spans = [span for content in contents for span in content.get("spans", [[0, 0, 1, len(content["tokens"])]])]
    sizes = torch.tensor([size for *_, size in spans], dtype=torch.long)
    author, turn, learned = (torch.tensor([span[at] for span in spans]).repeat_interleave(sizes) for at in range(3))
    return {"author": author, "turn": turn, "learned": learned.bool()}
