"""How responses are drawn from a policy, free of torch so that declarations can import it."""

from __future__ import annotations

from pydantic import Field

from components.contract.params import Params


class SamplingConfig(Params):
    """How responses are drawn from a policy."""

    num_samples: int = Field(default=1, ge=1)
    """Responses per prompt."""
    max_new_tokens: int = Field(default=64, ge=1)
    """Longest response, in tokens, the end mark counted."""
    temperature: float = Field(default=1.0, ge=0.0)
    """Divides the logits; 0 takes the most probable token."""
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    """Keep the smallest set of tokens whose probability reaches this (Holtzman et al. 2020); 1 keeps all."""
    top_k: int = Field(default=0, ge=0)
    """Keep the k most probable tokens; 0 keeps all."""
    max_batch_tokens: int = Field(default=131072, ge=1)
    """Bound on cached tokens at a time; more prompts are generated in chunks."""
    stop_token_ids: tuple[int, ...] = ()
    """Tokens that end a response beside the model's own end marks."""

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is taken."""
        return self.temperature == 0.0

    @property
    def plain(self) -> bool:
        """Whether tokens are drawn from the policy's own distribution, unchanged."""
        return self.temperature == 1.0 and self.top_p == 1.0 and self.top_k == 0
