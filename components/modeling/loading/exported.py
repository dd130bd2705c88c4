"""Whether an exported folder is the model that was trained: as transformers reads it, against the policy itself."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.loading.load import load_policy
from components.modeling.models.folder import load_tokenizer
from components.modeling.packing.packed import Packed
from components.modeling.text.prompting import encode_prompts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from components.modeling.models.policy import Policy

TEXTS = ("2 + 3 = 5", "The answer is 42.\nNext: why?", "def f(x):\n    return x + 1")
PROMPT = "What is 2 + 3?"
RANDOM_ROWS, ROW_TOKENS = 3, 24
LARGEST_DIFFERENCE = {torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.02}
"""Of two implementations' logits, as a share of their standard deviation: rounding, and no more."""


@dataclass(frozen=True)
class ExportCheck:
    """What was compared."""

    num_tensors: int
    num_weights: int
    num_positions: int
    """Positions whose logits were compared."""
    difference: float
    """The largest difference of two logits, as a share of their standard deviation."""


def check_exported(folder: Path, source: Path) -> ExportCheck:
    """Compare a folder, loaded by transformers, with the model in `source`, loaded as it was trained.

    Every weight must be found and used, the prompt must become the same tokens, and the logits of some texts and of
    random tokens may differ by rounding alone. Raises InputError with the first thing that is not so.
    """
    policy, hosted = load_policy(source), _load(folder)
    tokenizer = load_tokenizer(folder)
    if tokenizer is not None:
        _check_prompt(policy, tokenizer)
    rows = list(_rows(policy, tokenizer))
    difference = max((_difference(policy, hosted, row) for row in rows), default=0.0)
    bound = LARGEST_DIFFERENCE.get(hosted.dtype, LARGEST_DIFFERENCE[torch.bfloat16])
    if not difference <= bound:  # NaN is a difference, too
        raise InputError(
            "the exported folder is another model to transformers: logits differ by "
            f"{difference:.2g} of their standard deviation, where {bound:g} is rounding"
        )
    parameters = list(hosted.parameters())
    return ExportCheck(len(parameters), sum(map(torch.numel, parameters)), sum(map(len, rows)), difference)


def _load(folder: Path) -> Any:
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        model, told = AutoModelForCausalLM.from_pretrained(
            folder,
            output_loading_info=True,
            dtype="auto",
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
        )
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise InputError(f"transformers cannot load the exported folder: {str(error)[:300]}") from error
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if found := sorted(map(str, told[kind])):
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            raise InputError(f"transformers reports {kind.replace('_', ' ')} in the exported folder: {found[0]}{more}")
    return model.eval()


def _check_prompt(policy: Policy, tokenizer: PreTrainedTokenizerFast) -> None:
    assert policy.tokenizer is not None
    ours, theirs = (encode_prompts(one, [PROMPT], policy.ends)[0] for one in (policy.tokenizer, tokenizer))
    if ours != theirs:
        place = next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
        where = f"from token {place} on" if place is not None else "in length"
        raise InputError(
            f"the exported tokenizer or chat template renders a prompt otherwise than the model's, {where}"
        )


def _rows(policy: Policy, tokenizer: PreTrainedTokenizerFast | None) -> Iterator[Sequence[int]]:
    """Yield token ids of texts, and random ones."""
    for text in TEXTS if tokenizer is not None else ():
        if found := tokenizer.encode(text, add_special_tokens=False):
            yield found
    rng = random.Random(0)
    for _ in range(RANDOM_ROWS):
        yield [rng.randrange(policy.vocab_size) for _ in range(ROW_TOKENS)]


def _difference(policy: Policy, hosted: Any, row: Sequence[int]) -> float:
    packed = Packed.from_sequences([row], policy.device, keep_last=True)
    with torch.inference_mode():
        ours: Tensor = policy.logits(policy.hidden(packed)).float()
        theirs: Tensor = hosted(torch.tensor([row])).logits[0].float()
    width = min(ours.shape[-1], theirs.shape[-1])  # either may pad the vocabulary
    ours, theirs = ours[:, :width], theirs[:, :width]
    return float((ours - theirs).abs().max() / ours.std().clamp_min(1e-12))
