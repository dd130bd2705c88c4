"""The tiny tokenizer: single characters, plus one token for each phrase that all prompts of a domain share.

A templated prompt of 70 characters becomes 6 to 12 tokens, and digits stay separate, which a small network
needs for arithmetic. It is an ordinary PreTrainedTokenizerFast, which `AutoTokenizer.from_pretrained` loads.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from components.modeling.text.tokenizer_config import TokenizerConfig

PAD, EOS, UNKNOWN = "<|pad|>", "<|eos|>", "<|unk|>"
THINK, ANSWER = "<think>", "<answer>"
PRINTABLE = string.printable[:95] + "\n"
TINY_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}"
    "{{ eos_token if message['role'] == 'assistant' else '\\n' }}{% endfor %}"
)
"""A user turn costs one token beside its text (the newline), an assistant turn ends with eos."""
ROLE_MARKS = ("<|system|>", "<|user|>", "<|assistant|>")
ROLES_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
"""Every turn begins with the mark of its role; an assistant turn ends with eos."""


def train_tokenizer(
    texts: Iterable[str],
    prompts_by_domain: Mapping[str, Sequence[str]],
    config: TokenizerConfig | None = None,
) -> PreTrainedTokenizerFast:
    """Build the tokenizer for `texts` and the prompts of each domain; equal inputs give equal file bytes.

    The alphabet is printable ASCII, the newline and every character of `texts` and the prompts.
    """
    config = config or TokenizerConfig()
    alphabet = set(PRINTABLE)
    for text in texts:
        alphabet.update(text)
    for prompts in prompts_by_domain.values():
        alphabet.update(*prompts)
    phrases: set[str] = set()
    if config.phrases:
        for prompts in prompts_by_domain.values():
            sample = list(dict.fromkeys(prompts))[: config.max_sample_prompts]
            phrases.update(shared_phrases(sample, min_chars=config.min_phrase_chars))
    roles = config.chat_template == "roles"
    return _assemble(sorted(alphabet), sorted(phrases), byte_fallback=config.byte_fallback, roles=roles)


def shared_phrases(prompts: Sequence[str], *, min_chars: int) -> list[str]:
    """Return the substrings of at least `min_chars` that occur in all prompts, in the order of the prompts.

    The longest one is taken first; then the parts before and after it are searched in the same way. Fewer
    than two prompts have nothing to compare and share no phrase.
    """
    if len(prompts) < 2:
        return []
    phrase = _longest_shared(prompts, min_chars)
    if not phrase:
        return []
    parts = [prompt.partition(phrase) for prompt in prompts]
    before = shared_phrases([left for left, _, _ in parts], min_chars=min_chars)
    after = shared_phrases([right for _, _, right in parts], min_chars=min_chars)
    return list(dict.fromkeys([*before, phrase, *after]))


def _longest_shared(prompts: Sequence[str], min_chars: int) -> str:
    shortest = min(prompts, key=lambda prompt: (len(prompt), prompt))
    low, high, best = min_chars, len(shortest), ""
    while low <= high:  # if a phrase of n characters is shared, so is one of n - 1: bisect the length
        length = (low + high) // 2
        starts = range(len(shortest) - length + 1)
        pieces = dict.fromkeys(shortest[start : start + length] for start in starts)
        found = next((piece for piece in pieces if all(piece in prompt for prompt in prompts)), "")
        if found:
            low, best = length + 1, found
        else:
            high = length - 1
    return best


def _assemble(alphabet: list[str], phrases: list[str], *, byte_fallback: bool, roles: bool) -> PreTrainedTokenizerFast:
    marks = ROLE_MARKS if roles else ()
    pieces = [PAD, EOS, UNKNOWN, THINK, ANSWER, *marks, *alphabet]
    if byte_fallback:
        pieces += [f"<0x{value:02X}>" for value in range(256)]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN, byte_fallback=byte_fallback))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([PAD, EOS, UNKNOWN, *marks])
    # Marks are part of a model's text, so they are not special tokens: decoding keeps them.
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in (THINK, ANSWER)])
    tokenizer.add_tokens([AddedToken(phrase, normalized=False) for phrase in phrases])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    fast.chat_template = ROLES_CHAT_TEMPLATE if roles else TINY_CHAT_TEMPLATE
    return fast


def describe_tokenizer(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> dict[str, Any]:
    """Return how well a tokenizer fits `texts`: vocabulary, texts, characters, tokens and unknown
    characters."""
    encoded = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    unknown = tokenizer.unk_token_id
    return {
        "num_vocabulary": len(tokenizer),
        "num_texts": len(encoded),
        "num_tokens": sum(map(len, encoded)),
        "num_unknown": sum(ids.count(unknown) for ids in encoded) if unknown is not None else 0,
    }
