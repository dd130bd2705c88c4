"""Attention over cached keys and values: both caches against the textbook's, in float64, one row at a time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from components.modeling.native.decoder_config import DecoderConfig
from components.modeling.native.embedding_bag_cache import MOST_PROMPT, EmbeddingBagCache
from components.modeling.native.rotary import Rope
from components.modeling.native.row_cache import RowCache
from components.modeling.native.shared_prefix_cache import SharedPrefixCache

CACHES = pytest.mark.parametrize("kind", [EmbeddingBagCache, SharedPrefixCache])
LAYERS = 2


def config_of(
    heads: int, kv_heads: int, width: int, *, windows: tuple[int | None, ...] = (), cap: float | None = None
) -> DecoderConfig:
    return DecoderConfig(
        vocab_size=9,
        width=8,
        layers=LAYERS,
        heads=heads,
        kv_heads=kv_heads,
        head_width=width,
        mlp_width=8,
        rope=Rope(theta=1.0),
        norm_eps=1e-6,
        tie_embeddings=True,
        max_positions=512,
        windows=windows,
        attention_cap=cap,
    )


class Textbook:
    """Every row's keys and values of one layer in lists; softmax(q k / sqrt(C)) v for each head.

    Scores may be capped, and all but the last tokens of a window forgotten.
    """

    def __init__(self, config: DecoderConfig, prompts: list[Tensor], counts: list[int], layer: int) -> None:
        self.config, self.window = config, config.window(layer)
        self.rows = [list(prompt) for prompt, count in zip(prompts, counts, strict=True) for _ in range(count)]

    def attend(self, qkv: Tensor) -> Tensor:
        c = self.config
        outputs = []
        for row, new in zip(self.rows, qkv, strict=True):
            row.append(new)
            query, key, value = (
                torch.stack(row if self.window is None else row[-self.window :])
                .double()
                .unflatten(1, (-1, c.head_width))
                .split((c.heads, c.kv_heads, c.kv_heads), dim=1)
            )
            for head in range(c.heads):
                group = head // (c.heads // c.kv_heads)
                scores = key[:, group] @ query[-1, head] / c.head_width**0.5
                if c.attention_cap is not None:
                    scores = c.attention_cap * (scores / c.attention_cap).tanh()
                weights = scores.softmax(0)
                outputs.append(weights @ value[:, group])
        return torch.cat(outputs).view(len(self.rows), -1).float()

    def keep(self, rows: Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]


def run(
    cache: RowCache, config: DecoderConfig, lengths: list[int], counts: list[int], kept: dict[int, list[int]]
) -> None:
    """Feed random tokens to the cache and to the textbook; rows are dropped before the steps in `kept`."""
    generator = torch.Generator().manual_seed(0)
    features = (config.heads + 2 * config.kv_heads) * config.head_width
    packs = [torch.randn(sum(lengths), features, generator=generator) for _ in range(LAYERS)]
    books = [Textbook(config, list(pack.split(lengths)), counts, layer) for layer, pack in enumerate(packs)]
    cache.add_prompts(packs)
    if isinstance(cache, EmbeddingBagCache):  # What is not written is never to be seen.
        for layer in cache.layers:
            layer.own_keys.fill_(torch.nan)
            layer.own_values.fill_(torch.nan)
    for step in range(max(kept) + 1):
        if step in kept:
            rows = torch.tensor(kept[step])
            cache.keep(rows)
            for book in books:
                book.keep(rows)
        cache.advance()
        for layer, book in enumerate(books):
            qkv = torch.randn(len(book.rows), features, generator=generator)
            expected = book.attend(qkv)
            torch.testing.assert_close(cache.attend(layer, qkv.clone()), expected, atol=1e-5, rtol=1e-5)


def open_cache(
    kind: type[RowCache], config: DecoderConfig, lengths: list[int], counts: list[int], steps: int
) -> RowCache:
    prompt_of = torch.repeat_interleave(torch.tensor(counts))
    return kind(config, torch.tensor(lengths), prompt_of, steps)


@CACHES
@pytest.mark.parametrize("windows", [(), (1, 20), (None, 33)])
@pytest.mark.parametrize("cap", [None, 0.7])
def test_attention_is_the_textbooks_over_many_blocks(
    kind: type[RowCache], windows: tuple[int | None, ...], cap: float | None
) -> None:
    """Prompts of one and two blocks, own tokens of three, rows that leave at and off the bounds of blocks.

    Windows that hide from the first token on, within own tokens, and once a row is longer than they are.
    """
    config, lengths, counts = config_of(4, 2, 6, windows=windows, cap=cap), [5, 17, 30, 1], [2, 3, 1, 4]
    kept = {0: [0, 1, 2, 4, 5, 6, 7, 9], 7: [0, 2, 3, 4, 6, 7], 16: [1, 2, 3, 5], 33: [1, 3], 40: [0, 1]}
    run(open_cache(kind, config, lengths, counts, 41), config, lengths, counts, kept)


@CACHES
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_attention_is_the_textbooks(kind: type[RowCache], data: st.DataObject) -> None:
    kv_heads = data.draw(st.integers(1, 2))
    windows = tuple(data.draw(st.one_of(st.none(), st.integers(1, 30))) for _ in range(LAYERS))
    heads, width = kv_heads * data.draw(st.integers(1, 2)), 2 * data.draw(st.integers(1, 4))
    config = config_of(heads, kv_heads, width, windows=windows)
    lengths = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=3))
    counts = [data.draw(st.integers(1, 3)) for _ in lengths]
    steps = data.draw(st.integers(1, 20))
    drop = data.draw(st.integers(0, steps - 1))
    rows = data.draw(st.sets(st.integers(0, sum(counts) - 1), min_size=1))
    kept = {drop: sorted(rows), steps - 1: list(range(len(rows)))}
    run(open_cache(kind, config, lengths, counts, steps), config, lengths, counts, kept)


@CACHES
def test_a_query_of_zeros_takes_the_mean_of_values(kind: type[RowCache]) -> None:
    config = config_of(1, 1, 2)
    cache = open_cache(kind, config, [2], [1], 1)
    cache.add_prompts([torch.tensor([[0.0, 0, 1, 1, 3, 6], [0, 0, 2, 2, 6, 0]])])  # values (3, 6) and (6, 0)
    cache.advance()
    found = cache.attend(0, torch.tensor([[0.0, 0, 5, 5, 0, 3]]))  # value (0, 3)
    torch.testing.assert_close(found, torch.tensor([[3.0, 3.0]]))


def test_bags_are_for_float32_on_the_cpu_and_short_prompts() -> None:
    assert EmbeddingBagCache.serves(torch.empty(1), MOST_PROMPT)
    assert not EmbeddingBagCache.serves(torch.empty(1), MOST_PROMPT + 1)
    assert not EmbeddingBagCache.serves(torch.empty(1, dtype=torch.bfloat16), 1)
    assert not EmbeddingBagCache.serves(torch.empty(1, device="meta"), 1)
