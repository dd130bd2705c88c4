"""A linear probe: which direction of the last hidden states tells responses with a behaviour from those without."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from components.contract.errors import InputError
from components.measure.features import mean_hidden
from components.merge.stack import Family
from components.modeling.loading.load import load_policy
from components.tasks.rows import iter_jsonl, row_files

HELD_OUT = 5
"""Every fifth response is left out of the fit, to measure it."""
PENALTY = 1e-2
"""Half the coefficient of the squared weights."""
ITERATIONS = 200


def behaviour_direction(family: Family, column: str, value: str | bool | int) -> Tensor:
    """Return the weights [D] of the class with the behaviour; note `probe_accuracy` among the family's facts.

    Responses are told by the mean of the model's last hidden states at their tokens.
    Raises InputError without responses of both kinds.
    """
    assert family.probing is not None, "the stage checks it"
    rows = list(_rows(family.probing.datasets, column, value))
    marked = [has for _, has in rows]
    if not any(marked) or all(marked):
        raise InputError(
            f"input 'probe': {sum(marked)} of {len(rows)} responses have {column}: {value!r}; a probe needs both kinds"
        )
    policy = load_policy(family.probing.model, device=family.probing.device)
    states = torch.tensor(np.stack(mean_hidden(policy, [pair for pair, _ in rows])), dtype=torch.float64)
    labels = torch.tensor(marked, dtype=torch.float64)
    kept = torch.arange(len(rows)) % HELD_OUT != HELD_OUT - 1
    weights, bias = fit_probe(states[kept], labels[kept])
    right = ((states @ weights + bias > 0) == (labels > 0.5))[~kept if bool((~kept).any()) else kept]
    family.facts["probe_accuracy"] = float(right.double().mean())
    return weights.float()


def fit_probe(states: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights [D] and bias of the logistic regression of labels [N] on states [N, D], with an L2 penalty."""
    mean = states.mean(0)
    weights = torch.zeros(states.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros((), dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([weights, bias], max_iter=ITERATIONS, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        logits = (states - mean) @ weights + bias
        found = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels) + PENALTY * weights.square().sum()
        found.backward()
        return found

    solver.step(loss)
    with torch.no_grad():
        return weights.detach(), bias.detach() - mean @ weights.detach()


def _rows(folders: Iterable[Path], column: str, value: str | bool | int) -> Iterable[tuple[tuple[str, str], bool]]:
    """Yield (prompt, response) of each row, and whether it has the behaviour."""
    for folder in folders:
        for path in row_files(folder):
            for where, row in iter_jsonl(path):
                response = row.get("response", row.get("completion"))
                if not isinstance(row.get("prompt"), str) or not isinstance(response, str) or column not in row:
                    raise InputError(
                        f"{where}: a row of input 'probe' has prompt, response (or completion) and {column}"
                    )
                yield (row["prompt"], response), row[column] == value
