"""Drawing responses from the trained policy, and batches of given ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.generation.conversation import converse
from components.modeling.generation.sampler import NativeSampler, Sampler
from components.modeling.generation.samples import Samples
from components.modeling.generation.sampling import LogitsProcessor
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.models.policy import Policy
from components.modeling.text.prompting import decode_responses, encode_prompts
from components.rl.batch.batch import FOREIGN, Batch, Prompt, batch_of_samples, new_batch
from components.rl.step.asking import continuation_logprobs
from components.rl.step.conversations import batch_of_turns, script_of
from components.rl.step.given import given_tokens
from components.rl.step.rollout_queue import QueuedDraw, RolloutQueue
from components.rl.step.sampler_gap import SamplerGap
from components.rl.step.scoring import frozen_entropies, frozen_logprobs
from components.rl.step.settings import StepSettings
from components.tasks.wording import item_wording


class Drawing:
    """Draws responses for the operators of one step."""

    def __init__(
        self,
        policy: Policy,
        settings: StepSettings,
        *,
        generator: torch.Generator,
        max_tokens: int,
        sampler: Sampler | None = None,
        ahead: RolloutQueue | None = None,
        steps_left: int = 1,
    ) -> None:
        """`max_tokens` bounds a forward pass.

        `sampler` holds the policy's weights of this step (default: the policy itself). `ahead` holds the draws of
        earlier steps; `steps_left` is the number of steps left in the phase, this one included.
        """
        self.policy, self.settings = policy, settings
        self.gap = SamplerGap()
        """How far the sampler's log-probabilities were from the trained policy's."""
        self.num_tokens = 0
        """Tokens drawn, without prefixes and what a generator of its own drew, such as for held-out prompts."""
        self.num_probes = 0
        """Responses drawn without being scored, such as by `probe` and `ask`."""
        self.version = 0
        """Steps done by the weights that draw."""
        self.draws: list[tuple[int, int]] = []
        """Version and number of rows of each draw that is learned from, in the order in which they were taken."""
        self._pieces: dict[int, str] = {}
        self._generator = generator
        self._sampler, self._ahead = sampler or NativeSampler(policy), RolloutQueue() if ahead is None else ahead
        self._drew_ahead, self._steps_left = False, steps_left
        self.max_tokens = max_tokens

    def draw(
        self,
        prompts: Sequence[Prompt],
        num_samples: int,
        *,
        temperature: float | None = None,
        processor: LogitsProcessor | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
        policy: Policy | None = None,
        generator: torch.Generator | None = None,
        to_learn: bool = True,
    ) -> Batch:
        """Sample `num_samples` responses to each prompt; they are not yet scored.

        `behaviour_logprobs` are those of the sampling distribution, and so are `old_logprobs` until `rescore`; if an
        engine or a bfloat16 policy drew, `old_logprobs` are what training computes, at the temperature of the draw.

        Args:
            temperature: replaces the step's.
            processor: changes logits before the temperature.
            prefixes: one per response, whose first tokens they are; `extras["drawn_n"]` is False at them.
            policy: samples instead of the trained one; its responses are marked `external`.
            generator: replaces the run's, whose state then does not change.
            to_learn: if False, they are only verified: not scored for training, and not in the sampler's gap.

        Prompts with several turns of the policy become conversations; see `converse`. Raises InputError if such
        prompts come with prefixes or a processor.
        """
        if any(prompt.gaps for prompt in prompts):
            if prefixes is not None or processor is not None:
                raise InputError(
                    "rl: the prompts are conversations of several turns, which are drawn whole: neither from prefixes "
                    "nor through changed logits; use another operator, or prompts of one turn"
                )
            return self.converse(
                prompts, num_samples, temperature=temperature, policy=policy, generator=generator, to_learn=to_learn
            )
        is_own = policy is None or policy is self.policy
        sampler = self._sampler if policy is None or is_own else NativeSampler(policy)
        contexts, sampling = [prompt.tokens for prompt in prompts], self._sampling(num_samples, temperature)
        samples = sampler.sample(
            contexts,
            sampling,
            generator=generator or self._generator,
            prefixes=prefixes,
            processor=processor,
        )
        if is_own and processor is None and to_learn:  # with a processor, the distributions differ by intent
            samples = self._scored(sampler, contexts, samples, sampling.temperature)
        batch = batch_of_samples(prompts, samples, self._texts(prompts, samples.responses()))
        if is_own and to_learn:
            self.draws.append((self.version, batch.num_responses))
        if generator is None:
            self.num_tokens += int(samples.sampled.sum())
        if prefixes is not None:
            batch = batch.with_extras(drawn_n=samples.flat(samples.sampled))
        return batch if is_own else batch.by(FOREIGN)

    def converse(
        self,
        prompts: Sequence[Prompt],
        num_samples: int,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        policy: Policy | None = None,
        generator: torch.Generator | None = None,
        to_learn: bool = True,
    ) -> Batch:
        """Sample `num_samples` conversations for each prompt, one row each; they are not yet scored.

        `max_tokens` bounds the policy's tokens over all turns of a conversation; the step's limit applies to each turn.
        Other arguments and log-probabilities as in `draw`.
        """
        if not any(prompt.gaps for prompt in prompts) and max_tokens is None:
            return self.draw(
                prompts, num_samples, temperature=temperature, policy=policy, generator=generator, to_learn=to_learn
            )
        is_own, end = policy is None or policy is self.policy, self.policy.ends.trained
        sampler = self._sampler if policy is None or is_own else NativeSampler(policy)
        sampling = self._sampling(num_samples, temperature)
        turns = converse(
            sampler,
            [script_of(prompt, end) for prompt in prompts],
            sampling,
            generator=generator or self._generator,
            max_tokens=max_tokens,
        )
        if generator is None:
            self.num_tokens += sum(int(turn.samples.sampled.sum()) for turn in turns)
        if is_own and to_learn:
            found = (self._scored(sampler, turn.contexts, turn.samples, sampling.temperature) for turn in turns)
            turns = [replace(turn, samples=samples) for turn, samples in zip(turns, found, strict=True)]
        batch = batch_of_turns(prompts, turns, self._decoded, end=end, max_tokens=max_tokens)
        if is_own and to_learn:
            self.draws.append((self.version, batch.num_responses))
        return batch if is_own else replace(batch, author=batch.author.where(~batch.learned, FOREIGN))

    def draw_ahead(self, prompts: Sequence[Prompt], num_samples: int, depth: int) -> Batch:
        """Begin a draw and return the one begun `depth` steps ago; see rollout group_ahead.

        `old_logprobs` are the current trained policy's, at the temperature of this step.
        """
        if self._drew_ahead:
            return self.draw(prompts, num_samples)
        self._drew_ahead = True
        sampling = self._sampling(num_samples)

        def begin() -> QueuedDraw:
            if any(prompt.gaps for prompt in prompts):
                batch = self.converse(prompts, num_samples)
                self.draws.pop()  # it is taken later
                return QueuedDraw(prompts, batch, self.version)
            tokens = [prompt.tokens for prompt in prompts]
            drawing = self._sampler.begin(tokens, sampling, generator=self._generator)
            return QueuedDraw(prompts, drawing, self.version)

        ordered = self._ahead.exchange(begin, depth, self._steps_left)
        if isinstance(ordered.drawing, Batch):
            self.draws.append((ordered.version, ordered.drawing.num_responses))
            return self.rescore(ordered.drawing)
        tokens = [prompt.tokens for prompt in ordered.prompts]
        samples = self._sampler.scored(tokens, ordered.drawing.samples(), temperature=sampling.temperature)
        self.gap.add(samples)
        self.draws.append((ordered.version, len(samples.lengths)))
        self.num_tokens += int(samples.sampled.sum())
        return batch_of_samples(ordered.prompts, samples, self._texts(ordered.prompts, samples.responses()))

    def _scored(
        self, sampler: Sampler, contexts: Sequence[Sequence[int]], samples: Samples, temperature: float
    ) -> Samples:
        """Return samples with the log-probabilities that training begins from, and note the sampler's gap."""
        self.gap.add(found := sampler.with_policy_logprobs(contexts, samples, temperature=temperature))
        return found

    def _sampling(self, num_samples: int, temperature: float | None = None) -> SamplingConfig:
        return SamplingConfig(
            num_samples=num_samples,
            max_new_tokens=self.settings.max_new_tokens,
            temperature=self.settings.temperature if temperature is None else temperature,
        )

    def responses(
        self, prompts: Sequence[Prompt], given: Sequence[str | Sequence[int | str]], *, external: bool = True
    ) -> Batch:
        """Make a batch of given responses, texts or token ids, one per prompt and each in its own group.

        A missing end token is added, and tokens beyond the limit are cut. `old_logprobs` and `entropies` are the
        trained policy's; the batch is not yet scored. `regroup` joins it with samples.
        """
        ends, limit = self.policy.eos_ids, self.settings.max_new_tokens
        rows = [list(row) for row in given_tokens(self.policy, prompts, given)]
        rows = [(row if row and row[-1] in ends else [*row, self.policy.ends.trained])[:limit] for row in rows]
        num_tokens = sum(map(len, rows))
        batch = new_batch(
            prompts,
            self._texts(prompts, rows),
            group=torch.arange(len(rows)),
            lengths=torch.tensor([len(row) for row in rows]),
            finished=torch.tensor([row[-1] in ends for row in rows]),
            tokens=torch.tensor([token for row in rows for token in row]),
            old_logprobs=torch.zeros(num_tokens),
            entropies=torch.zeros(num_tokens),
        )
        batch = self.rescore(batch.by(FOREIGN) if external else batch)
        return replace(
            batch,
            behaviour_logprobs=batch.old_logprobs,
            entropies=frozen_entropies(self.policy, batch, max_tokens=self.max_tokens),
        )

    def likelihood(
        self,
        contexts: Sequence[Sequence[int]],
        continuations: Sequence[Sequence[int]],
        *,
        policy: Policy | None = None,
        temperature: float = 1.0,
    ) -> list[Tensor]:
        """Return for each pair [T_i]: log-probabilities of the continuation's tokens behind its context.

        By the trained policy or by `policy`, without gradients, on the CPU; equal pairs are computed once.
        """
        asked, most = policy or self.policy, self.max_tokens
        return continuation_logprobs(asked, contexts, continuations, temperature=temperature, max_tokens=most)

    def ask(
        self, contexts: Sequence[Sequence[int]], *, max_new_tokens: int, temperature: float = 0.0, num_samples: int = 1
    ) -> list[list[str]]:
        """Return the texts that the trained policy writes behind each context, `num_samples` for each.

        They are neither verified, recorded nor learned from; they count as probes, and their tokens as drawn. Equal
        contexts are asked once if the draw is greedy, which is the default.
        """
        rows = [tuple(context) for context in contexts]
        asked = list(dict.fromkeys(rows)) if temperature == 0.0 else rows
        if not asked:
            return []
        sampling = SamplingConfig(num_samples=num_samples, max_new_tokens=max_new_tokens, temperature=temperature)
        samples = self._sampler.sample(asked, sampling, generator=self._generator)
        self.num_tokens += int(samples.sampled.sum())
        self.num_probes += len(asked) * num_samples
        assert self.policy.tokenizer is not None
        texts = decode_responses(self.policy.tokenizer, samples.responses(), self.policy.ends)
        found = [texts[at * num_samples : (at + 1) * num_samples] for at in range(len(asked))]
        return [dict(zip(asked, found, strict=True))[row] for row in rows] if temperature == 0.0 else found

    def encode(self, text: str) -> list[int]:
        """Return the token ids of plain text, without special tokens."""
        assert self.policy.tokenizer is not None
        found: list[int] = self.policy.tokenizer.encode(text, add_special_tokens=False)
        return found

    def encode_prompt(self, text: str) -> list[int]:
        """Return the token ids of a prompt, rendered as the prompts of a dataset are."""
        assert self.policy.tokenizer is not None
        (found,) = encode_prompts(self.policy.tokenizer, [text], self.policy.ends)
        return found

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Return the text of each token by itself; an end of the turn has none."""
        tokenizer, ends = self.policy.tokenizer, self.policy.eos_ids
        assert tokenizer is not None
        for token in set(tokens) - self._pieces.keys():
            self._pieces[token] = "" if token in ends else str(tokenizer.decode([token]))
        return [self._pieces[token] for token in tokens]

    def rescore(self, batch: Batch) -> Batch:
        """Set `old_logprobs` to the trained policy's at the step's temperature; keep `behaviour_logprobs`."""
        own = frozen_logprobs(self.policy, batch, temperature=self.settings.temperature, max_tokens=self.max_tokens)
        return replace(batch, old_logprobs=own)

    def _texts(self, prompts: Sequence[Prompt], rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of responses, equally many per prompt and in the order of the prompts."""
        return self._decoded([prompt for prompt in prompts for _ in range(len(rows) // len(prompts))], rows)

    def _decoded(self, prompts: Sequence[Prompt], rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of responses, each to its own prompt."""
        assert self.policy.tokenizer is not None
        wordings = {prompt.item.id: item_wording(prompt.item) for prompt in prompts}
        texts = [wordings[prompt.item.id] for prompt in prompts]
        return decode_responses(self.policy.tokenizer, rows, self.policy.ends, wordings=texts)
