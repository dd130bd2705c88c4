"""The pretrain stage: build or load a model, train it on every token of a corpus, save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from components.contract.context import StageContext
from components.contract.messages import conversation_of
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.policy import Policy
from components.modeling.supervised.examples import Example, examples_from_rows, row_kind, split_long
from components.modeling.supervised.training_stage import train_and_save
from components.modeling.text.tokenizer import train_tokenizer
from components.tasks.rows import read_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from components.modeling.text.tokenizer_config import TokenizerConfig
    from components.pretrain.params import PretrainParams

Rows = Sequence[Mapping[str, Any]]


def run(ctx: StageContext[PretrainParams]) -> None:
    """Train a new model, or input `model`, on input `dataset` with plain next-token loss."""
    rows = _rows(ctx, "dataset")
    policy = _open_policy(ctx, rows)
    longest = ctx.params.max_tokens
    ctx.headline(vocab_size=policy.vocab_size)
    train_and_save(
        ctx,
        policy,
        _examples(policy, rows, longest),
        ctx.params,
        validation=_examples(policy, _rows(ctx, "validation"), longest),
    )


def tokenizer_for(rows: Rows, config: TokenizerConfig) -> PreTrainedTokenizerFast:
    """Build the tokenizer for the rows of a corpus; phrases come from prompts, messages of the user, or texts."""
    by_domain: dict[str, list[str]] = {}
    responses = []
    for index, row in enumerate(rows):
        kind = row_kind(row, index)
        if kind == "messages":
            messages = conversation_of(row) or ()
            questions = (message.content or "" for message in messages if message.role == "user")
            for turn, question in enumerate(questions):  # first questions have their own phrases
                by_domain.setdefault(f"{row.get('domain', '')}\n{turn}", []).append(question)
            responses += [message.content or "" for message in messages]
            continue
        by_domain.setdefault(row.get("domain", ""), []).append(row["prompt" if kind == "pair" else "text"])
        if kind == "pair":
            responses.append(row["response"])
    return train_tokenizer(responses, by_domain, config)


def _open_policy(ctx: StageContext[PretrainParams], rows: Rows) -> Policy:
    params = ctx.params
    if given := ctx.inputs("model"):
        return load_policy(given[0].path, device=ctx.device, dtype=params.dtype, sharded=ctx.job.resources.sharded)
    tokenizer = tokenizer_for(rows, params.tokenizer)
    device = "cpu" if ctx.job.resources.sharded else ctx.device  # the trainer puts each rank's share where it trains
    return new_policy(params.architecture, tokenizer=tokenizer, seed=ctx.seed, device=device, dtype=params.dtype)


def _rows(ctx: StageContext[PretrainParams], port: str) -> Rows:
    return [row for artifact in ctx.inputs(port) for row in read_rows(artifact.path)]


def _examples(policy: Policy, rows: Rows, longest: int) -> list[Example]:
    return split_long(examples_from_rows(policy.tokenizer, rows, loss_on="all", ends=policy.ends), longest)
