"""Drawing responses and having them verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from components.modeling.generate import Samples, generate
from components.modeling.policy import Policy
from components.modeling.prompting import decode_response
from components.modeling.sampling import SamplingConfig
from components.rl.batch import FAILED, RIGHT, WRONG, Batch, Prompt, new_batch
from components.rl.ledger import PassRates
from components.rl.slots import StepSettings
from components.tasks.verify import Outcome, verify

CODES = {Outcome.WRONG: WRONG, Outcome.RIGHT: RIGHT, Outcome.FAILED: FAILED}


class Collector:
    """What rollout and guidance operators sample with, during one step. It counts whatever was verified."""

    def __init__(
        self,
        policy: Policy,
        settings: StepSettings,
        *,
        generator: torch.Generator,
        ledger: PassRates,
        reward: Callable[[Batch], Tensor],
    ) -> None:
        """`reward` gives [S] for a verified batch."""
        self.policy, self.settings = policy, settings
        self.seen: list[Batch] = []
        """Every scored batch of the step, failed verifications included."""
        self._generator, self._ledger, self._reward = generator, ledger, reward

    def draw(self, prompts: Sequence[Prompt], num_samples: int) -> Batch:
        """Sample `num_samples` responses to each prompt with the step's settings; they are not yet scored."""
        sampling = SamplingConfig(
            num_samples=num_samples,
            max_new_tokens=self.settings.max_new_tokens,
            temperature=self.settings.temperature,
        )
        tokens = [prompt.tokens for prompt in prompts]
        samples = generate(self.policy, tokens, sampling, generator=self._generator)
        tokenizer = self.policy.tokenizer
        assert tokenizer is not None
        texts = [decode_response(tokenizer, response) for response in samples.responses()]
        return batch_of_samples(prompts, samples, texts)

    def score(self, batch: Batch) -> Batch:
        """Verify and reward every response; return those that could be verified.

        A failed verification is counted and recorded, but is in no statistic and in no loss.
        """
        pairs = [
            (batch.prompts[group].item, text) for group, text in zip(batch.group.tolist(), batch.texts, strict=True)
        ]
        known: dict[tuple[str, str], Outcome] = {}  # late in a run most responses of a group are equal
        for item, text in pairs:
            if (item.id, text) not in known:
                known[item.id, text] = verify(item, text).outcome
        outcomes = [known[item.id, text] for item, text in pairs]
        for (item, _), outcome in zip(pairs, outcomes, strict=True):
            self._ledger.add(item.id, item.domain, **{outcome.value: 1})
        batch = replace(batch, outcomes=torch.tensor([CODES[outcome] for outcome in outcomes]))
        verified = batch.outcomes != FAILED
        kept = batch if bool(verified.all()) else batch.select(verified)
        kept = replace(kept, rewards=self._reward(kept))
        rewards = torch.full((batch.num_responses,), torch.nan)
        rewards[verified] = kept.rewards
        self.seen.append(replace(batch, rewards=rewards))
        return kept


def batch_of_samples(prompts: Sequence[Prompt], samples: Samples, texts: Sequence[str]) -> Batch:
    """Lay padded samples end to end; how wide their padding was makes no difference from here on."""
    return new_batch(
        prompts,
        texts,
        group=samples.prompt_index,
        lengths=samples.lengths,
        finished=samples.finished,
        tokens=samples.flat(samples.tokens),
        old_logprobs=samples.flat(samples.logprobs),
        entropies=samples.flat(samples.entropies),
    )
