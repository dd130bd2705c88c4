from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from components.contract.errors import InputError
from components.modeling.text.prompting import (
    decode_response,
    encode_example,
    encode_examples,
    encode_prompt,
    encode_text,
)
from components.modeling.text.tokenizer import ANSWER, PRINTABLE, THINK, train_tokenizer

TINY = train_tokenizer([], {"sums": ["Add 1 and 2.", "Add 3 and 4.", "Add 15 and 6."]})
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINKING = CHATML.replace("<|im_start|>assistant\n{%", "<|im_start|>assistant\n<think>\n{%")


def byte_level(template: str | None) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with merges, as large open models have it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|im_start|>", "<|im_end|>", "<|pad|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["user assistant the answer is forty two, what is six times seven?"], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|pad|>")
    fast.chat_template = template
    return fast


def test_layout_of_the_tiny_tokenizer() -> None:
    tokens, mask = encode_example(TINY, "Add 1 and 2.", f"{THINK}1+2=3{ANSWER}3")
    assert TINY.convert_ids_to_tokens(tokens) == [
        *("Add ", "1", " and ", "2", ".", "\n"),
        *(THINK, "1", "+", "2", "=", "3", ANSWER, "3", "<|eos|>"),
    ]
    assert mask == [False] * 6 + [True] * 9


@given(prompt=st.text(alphabet=PRINTABLE, max_size=15), response=st.text(alphabet=PRINTABLE, max_size=15))
def test_an_example_starts_with_its_prompt_and_its_targets_decode_to_its_response(prompt: str, response: str) -> None:
    tokens, mask = encode_example(TINY, prompt, response)
    start = encode_prompt(TINY, prompt)
    assert tokens[: len(start)] == start
    assert mask == [False] * len(start) + [True] * (len(tokens) - len(start))
    assert decode_response(TINY, tokens[len(start) :]) == response


def test_the_shortcut_for_the_tiny_template_renders_what_the_template_does() -> None:
    messages = [{"role": "user", "content": " x \n"}, {"role": "assistant", "content": "y "}]
    whole = TINY.apply_chat_template(messages, tokenize=False)
    assert TINY.decode(encode_example(TINY, " x \n", "y ").tokens) == whole
    prompt = TINY.apply_chat_template(messages[:1], tokenize=False, add_generation_prompt=True)
    assert TINY.decode(encode_prompt(TINY, " x \n")) == prompt


def test_a_chat_template_gives_the_generation_prompt_and_the_loss_ends_at_eos() -> None:
    tokenizer = byte_level(CHATML)
    start = encode_prompt(tokenizer, "what is six times seven?")
    assert tokenizer.decode(start) == ("<|im_start|>user\nwhat is six times seven?<|im_end|>\n<|im_start|>assistant\n")
    tokens, mask = encode_example(tokenizer, "what is six times seven?", "forty two")
    assert tokens[: len(start)] == start
    assert tokenizer.decode([t for t, m in zip(tokens, mask, strict=True) if m]) == "forty two<|im_end|>"


def test_a_template_that_is_not_prefix_stable_is_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match=r"not prefix stable.*<think>"):
        encode_example(byte_level(THINKING), "six?", "forty two")


def test_without_a_template_prompt_and_response_are_joined_and_eos_is_added() -> None:
    tokenizer = byte_level(None)
    tokens, mask = encode_example(tokenizer, "six times", " seven")
    assert tokenizer.decode(tokens) == "six times seven<|im_end|>"
    assert tokenizer.decode([t for t, m in zip(tokens, mask, strict=True) if m]) == " seven<|im_end|>"


def test_a_token_that_would_reach_across_the_border_is_split_as_in_sampling() -> None:
    tokenizer = byte_level(None)
    assert len(tokenizer.encode("the")) < len("the")  # "the" merges when it is seen as one
    tokens, _ = encode_example(tokenizer, "th", "e")
    start = encode_prompt(tokenizer, "th")
    assert tokens[: len(start)] == start
    assert tokenizer.decode(tokens) == "the<|im_end|>"


def test_many_examples_are_encoded_as_each_alone() -> None:
    pairs = [("Add 1 and 2.", "3"), ("Add 10 and 2.", "12"), ("x", "")]
    assert encode_examples(TINY, pairs) == [encode_example(TINY, *pair) for pair in pairs]
    assert encode_examples(TINY, []) == []


def test_plain_text_is_all_target_and_ends_with_eos() -> None:
    tokens, mask = encode_text(TINY, "Add 1")
    assert TINY.decode(tokens) == "Add 1<|eos|>"
    assert all(mask)


def test_decoding_stops_at_eos_and_drops_padding() -> None:
    tokens = TINY.encode(f"{THINK}7{ANSWER}7<|eos|>9")
    assert decode_response(TINY, [TINY.pad_token_id, *tokens]) == f"{THINK}7{ANSWER}7"


def test_a_tokenizer_without_eos_is_refused() -> None:
    tokenizer = byte_level(None)
    tokenizer.eos_token = None
    with pytest.raises(InputError, match="eos_token"):
        encode_example(tokenizer, "a", "b")
