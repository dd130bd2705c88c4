"""The reference of a training at input `reference`: another model with the same tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.contract.further import REFERENCE
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from components.preference.params import PreferenceParams

DIVIDED = ("context_parallel", "tensor_parallel")


def opened_reference(ctx: StageContext[PreferenceParams], tokenizer: PreTrainedTokenizerBase | None) -> Policy:
    """Return the model at input `reference`, frozen and whole in every process.

    Raises InputError for one with other tokens, and for ranks that divide a pass.
    """
    for name in DIVIDED:
        if getattr(ctx.job.resources, name) > 1:
            raise InputError(f"reference: no pass of another model is divided over ranks; set {name}: 1, or leave the "
                             "input out, so that the start is its own reference")  # fmt: skip
    reference = load_policy(ctx.input(REFERENCE).path, device=ctx.device, dtype=ctx.params.dtype)
    reference.module.requires_grad_(False)
    check_vocabulary(tokenizer, reference.tokenizer)
    return reference


def check_vocabulary(own: PreTrainedTokenizerBase | None, other: PreTrainedTokenizerBase | None) -> None:
    """Raise InputError unless both tokenizers give the same ids to the same tokens."""
    if own is None or other is None:
        raise InputError(f"reference: the {'reference' if own else 'model'} has no tokenizer to compare tokens by")
    mine, its = own.get_vocab(), other.get_vocab()
    if mine == its:
        return
    token = min(token for token in mine.keys() | its.keys() if mine.get(token) != its.get(token))
    raise InputError(
        f"reference: it has another tokenizer: token {token!r} is {_id(mine, token)} in the model and "
        f"{_id(its, token)} in the reference; take a reference of the same family, or leave the input out"
    )


def _id(vocabulary: dict[str, int], token: str) -> str:
    return f"id {vocabulary[token]}" if token in vocabulary else "absent"
