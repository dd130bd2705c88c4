"""A further model from its weights, run in this process by our own samplers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.contract.job import Resources
from components.modeling.serving.models import Asked, Drawing, Likelihood, Rater, Scorer, Writer, Written, as_text

if TYPE_CHECKING:
    from components.modeling.generation.sampler import Sampler
    from components.modeling.models.policy import Policy

MAX_TOKENS = 16384
"""Most tokens of one forward pass that scores."""


class LocalModel(Writer, Scorer, Rater):
    """A frozen model; its weights are loaded on first use. Ranks share the scoring: all must call."""

    def __init__(
        self, name: str, folder: Path, *, device: str, dtype: str, resources: Resources, awake: bool = False
    ) -> None:
        """`awake`: nothing else needs the memory, so that an engine keeps its weights between draws."""
        self.name = name
        self._awake, self._loaded = awake, False
        self._folder, self._device, self._dtype, self._resources = folder, device, dtype, resources
        self._open = ExitStack()

    def write(self, prompts: Sequence[Asked], drawing: Drawing) -> list[list[Written | None]]:
        """Draw with the sampler that the job's resources name."""
        import torch

        from components.modeling.generation.sampling_config import SamplingConfig
        from components.modeling.text.prompting import decode_responses
        from components.modeling.text.turns import scripts

        if not prompts:
            return []
        policy, sampler = self._policy, self._sampler
        if not (self._awake and self._loaded):
            sampler.load_weights()
            self._loaded = True
        samples = sampler.sample(
            [script.opening for script in scripts(policy.tokenizer, prompts, policy.ends)],
            SamplingConfig(
                num_samples=drawing.num_samples,
                max_new_tokens=drawing.max_new_tokens,
                temperature=drawing.temperature,
            ),
            generator=torch.Generator().manual_seed(drawing.seed),
        )
        if not self._awake:
            sampler.rest()
        asked = [text for text in map(as_text, prompts) for _ in range(drawing.num_samples)]
        texts = decode_responses(policy.tokenizer, samples.responses(), policy.ends, wordings=asked)
        rows = [Written(text, done) for text, done in zip(texts, samples.finished.tolist(), strict=True)]
        size = drawing.num_samples
        return [[*rows[at : at + size]] for at in range(0, len(rows), size)]

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Likelihood | None]:
        """Score in forward passes of bounded size, each distinct pair once."""
        from components.modeling.ranks import current_ranks

        ranks, distinct = current_ranks().all, list(dict.fromkeys(pairs))
        shares = ranks.gather(self._score(ranks.share(distinct)))
        found = dict(zip(distinct, ranks.together(shares), strict=True))
        return [found[pair] for pair in pairs]

    @property
    def policy(self) -> Policy:
        """Return the frozen weights themselves, for who compares logits."""
        return self._policy

    @property
    def control_marks(self) -> list[str]:
        """Return the texts that its tokenizer reads as one special token, such as the end of a turn."""
        from components.modeling.text.control_marks import control_marks

        assert self._policy.tokenizer is not None
        return control_marks(self._policy.tokenizer)

    def close(self) -> None:
        """Close the sampler."""
        self._open.close()

    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[Likelihood | None]:
        import torch

        from components.modeling.packing.batching import micro_batches
        from components.modeling.packing.packed import Packed
        from components.modeling.text.prompting import encode_examples

        policy = self._policy
        found: list[Likelihood | None] = [Likelihood(0.0, 0) if not text else None for _, text in pairs]
        asked = [at for at, (_, text) in enumerate(pairs) if text]
        encoded = encode_examples(policy.tokenizer, [pairs[at] for at in asked], policy.ends)
        rows = [
            (at, one.tokens[:-1], one.loss_mask[:-1]) for at, one in zip(asked, encoded, strict=True)
        ]  # no end mark
        rows = [row for row in rows if any(row[2]) and len(row[1]) <= policy.max_positions]
        with torch.no_grad():
            for chosen in micro_batches([len(tokens) for _, tokens, _ in rows], MAX_TOKENS):
                part = [rows[index] for index in chosen]
                packed = Packed.from_sequences(
                    [tokens for _, tokens, _ in part], policy.device, masks=[mask for _, _, mask in part]
                )
                counts = [sum(mask) for _, _, mask in part]
                values = policy.target_logprobs(packed).logprobs.double().cpu().split(counts)
                for (at, _, _), value, count in zip(part, values, counts, strict=True):
                    found[at] = Likelihood(float(value.sum()), count)
        return found

    @cached_property
    def _policy(self) -> Policy:
        from components.modeling.loading.load import load_policy

        policy = load_policy(self._folder, device=self._device, dtype=self._dtype)
        if policy.tokenizer is None:
            raise InputError(f"{self.name}: the model has no tokenizer, so it cannot be asked in text")
        policy.module.requires_grad_(False)
        return policy

    @cached_property
    def _sampler(self) -> Sampler:
        from components.modeling.generation.choose import open_sampler
        from components.modeling.ranks import current_ranks

        return self._open.enter_context(open_sampler(self._policy, self._resources, current_ranks().all))
