"""NativeSession: token-by-token decoding on the native decoder.

Every prompt is encoded once; all its rows share its keys and values, and each row stores only those of its response.

Shapes: P prompts, R rows, H query heads, G key-value heads, C head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from components.modeling.models.session import Session
from components.modeling.native.decoder import Decoder
from components.modeling.native.embedding_bag_cache import EmbeddingBagCache
from components.modeling.native.shared_prefix_cache import SharedPrefixCache
from components.modeling.native.step_layer import StepDecoder
from components.modeling.packing.packed import Packed


class NativeSession(Session):
    """Rows of one chunk, in order of their prompts."""

    def __init__(
        self, decoder: Decoder, prompts: Sequence[Sequence[int]], counts: Sequence[int], max_new_tokens: int
    ) -> None:
        self.decoder = decoder
        self.prompts = prompts
        device = decoder.embedding.device
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        self.prompt_of = torch.repeat_interleave(torch.tensor(counts, device=device))
        longest = max(map(len, prompts))
        kind = EmbeddingBagCache if EmbeddingBagCache.serves(decoder.embedding, longest) else SharedPrefixCache
        # The last token is emitted but never fed back.
        self.cache = kind(decoder.config, lengths, self.prompt_of, max_new_tokens - 1)
        self.positions = lengths.index_select(0, self.prompt_of)
        """[R] position of each row's next token."""
        self.tables = decoder.turn_tables(longest + max_new_tokens)
        self.prepared: StepDecoder | None = None

    def start(self) -> Tensor:
        """Encode the prompts; return logits [R, V] of every row's first response token."""
        packed = Packed.from_sequences(self.prompts, self.positions.device, keep_last=True)
        projections: list[Tensor] = []
        hidden = self.decoder(packed, packed.last, projections=projections)
        self.cache.add_prompts(projections)
        logits = self.decoder.logits(hidden)
        return logits.index_select(0, self.prompt_of)

    def step(self, tokens: Tensor) -> Tensor:
        """Append tokens [R]; return logits [R, V] of the next ones."""
        decoder = self.decoder
        if self.prepared is None and StepDecoder.serves(decoder):
            self.prepared = StepDecoder(decoder)
        x = decoder.steered(decoder.embed(tokens), 0)
        turns = decoder.by_layer([table.index_select(0, self.positions).unsqueeze(1) for table in self.tables])
        self.positions += 1
        self.cache.advance()
        if self.prepared:
            for index, layer in enumerate(self.prepared.layers):
                x = layer.finish(x, self.cache.attend(index, layer.project(x, turns[index])))
                x = decoder.steered(x, index + 1)
            return decoder.capped(self.prepared.logits(x))
        for index, layer in enumerate(decoder.layers):
            x = decoder.steered(layer(x, turns[index], attend_to=partial(self.cache.attend, index)), index + 1)
        return decoder.logits(decoder.final_norm(x))

    def keep(self, rows: Tensor) -> None:
        """Keep only the given rows."""
        self.prompt_of = self.prompt_of.index_select(0, rows)
        self.positions = self.positions.index_select(0, rows)
        self.cache.keep(rows)
