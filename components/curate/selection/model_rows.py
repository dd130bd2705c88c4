"""Rows as the model at input `policy` sees them: hidden states of their texts, and what it would learn from them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from components.contract.messages import written
from components.contract.operators import OperatorSpec
from components.curation.candidate import Candidate
from components.tasks.item import item_from_row
from components.tasks.slots import DEMONSTRATOR

if TYPE_CHECKING:
    from components.curate.selection.context import SelectionContext
    from components.measure.intervals import Floats
    from components.modeling.models.policy import Policy

PASS_TOKENS = 8192


def open_policy(context: SelectionContext) -> Policy:
    """Return the model at input `policy`."""
    from components.modeling.loading.load import load_policy

    return load_policy(context.policy, device=context.stage.device)


def hidden_states(context: SelectionContext, texts: Sequence[str]) -> Floats:
    """Return [N, D]: the mean of each text's hidden states after the last layer."""
    import numpy as np
    import torch

    from components.contract.errors import InputError
    from components.modeling.packing.batching import micro_batches
    from components.modeling.packing.packed import Packed
    from components.modeling.text.prompting import encode_texts

    policy = open_policy(context)
    if policy.tokenizer is None:
        raise InputError("the model at input 'policy' has no tokenizer")
    encoded = [found.tokens for found in encode_texts(policy.tokenizer, texts)]
    found: list[Any] = [None] * len(encoded)
    for chosen in micro_batches([len(tokens) for tokens in encoded], PASS_TOKENS):
        packed = Packed.from_sequences([encoded[index] for index in chosen], policy.device, keep_last=True)
        with torch.no_grad():
            states = policy.features(packed).double().cpu().numpy()
        for index, state in zip(chosen, states, strict=True):
            found[index] = state
    return np.array(found)


def learned_row(row: Candidate) -> dict[str, Any]:
    """Return a row that sft can learn: with its response or, if it has none, with its reference answer."""
    if row.item is None:
        return {"domain": row.domain, "text": row.text}
    given = {} if row.response is None else written((*row.turns, row.response))
    return with_response({**row.item.row(), **given}, row.id)


def with_response(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a row of a dataset with its reference answer as the response, if it has neither response nor text."""
    if "response" in row or "text" in row:
        return dict(row)
    item = item_from_row(dict(row), where)
    text = OperatorSpec(name="gold").resolve(DEMONSTRATOR)(item, random.Random(0))
    return {**row, **written((text,) if isinstance(text, str) else text)}
