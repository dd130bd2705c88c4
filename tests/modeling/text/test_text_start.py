"""Texts and prompts begin as transformers' own tokenizer begins them, and end without what it appends."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from components.contract.messages import Message
from components.modeling.text.prompting import encode_example, encode_prompt, encode_prompts, encode_text, text_start
from components.modeling.text.turns import encode_conversation, script

SPECIAL = ("<bos>", "<eos>", "<sep>", "<|im_start|>", "<|im_end|>")
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXTS = ["What is 3 +", "  two spaces first", "line\nbreak", "", "äöü"]


@dataclass(frozen=True)
class Kind:
    """How a family's tokenizer frames a text."""

    template: str
    """Of the post-processor; empty for none."""
    start: tuple[str, ...]
    end: int = 0
    """How many tokens it appends."""
    metaspace: bool = False


KINDS = {
    "llama 2": Kind("<bos> $A", ("<bos>",), metaspace=True),
    "llama 3": Kind("<bos> $A", ("<bos>",)),
    "gemma with eos": Kind("<bos> $A <eos>", ("<bos>",), end=1),
    "bert": Kind("<bos> <sep> $A <sep>", ("<bos>", "<sep>"), end=1),
    "t5": Kind("$A <eos>", (), end=1),
    "qwen": Kind("", ()),
}


def tokenizer_of(kind: Kind, chat_template: str | None = None) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE(byte_fallback=kind.metaspace, unk_token=None))
    if kind.metaspace:  # as Llama 2's sentencepiece: a space before the text, spaces as ▁, bytes for the rest
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        backend.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
        alphabet = [*"▁ abcdefghijklmnopqrstuvwxyzWT0123456789+.?-äöü\n"]
    else:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=310, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(["What is the sum of twelve and five? forty-two"] * 2, trainer)
    if kind.template:
        backend.post_processor = processors.TemplateProcessing(
            single=kind.template, special_tokens=[(mark, backend.token_to_id(mark)) for mark in SPECIAL]
        )
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<bos>", eos_token="<eos>")
    fast.chat_template = chat_template
    return fast


@pytest.fixture(scope="module", params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(scope="module")
def tokenizer(kind: Kind) -> PreTrainedTokenizerFast:
    return tokenizer_of(kind)


def test_prompts_and_texts_begin_as_the_tokenizer_begins_them(kind: Kind, tokenizer: PreTrainedTokenizerFast) -> None:
    assert tokenizer.convert_ids_to_tokens(text_start(tokenizer)) == list(kind.start)
    whole = tokenizer(TEXTS)["input_ids"]
    expected = [tokens[: len(tokens) - kind.end] for tokens in whole]
    assert encode_prompts(tokenizer, TEXTS) == expected
    for text, tokens in zip(TEXTS, expected, strict=True):
        assert encode_text(tokenizer, text) == ([*tokens, tokenizer.eos_token_id], [True] * (len(tokens) + 1))


def test_an_example_begins_with_its_prompt(kind: Kind, tokenizer: PreTrainedTokenizerFast) -> None:
    for prompt in ("What is 3 +", ""):
        tokens, mask = encode_example(tokenizer, prompt, " forty-two")
        start = encode_prompt(tokenizer, prompt)
        assert tokens[: len(start)] == start
        assert tokenizer.convert_ids_to_tokens(start[: len(kind.start)]) == list(kind.start)
        assert mask == [False] * len(start) + [True] * (len(tokens) - len(start))
        assert tokens[-1] == tokenizer.eos_token_id


def test_a_text_that_begins_with_bos_gets_no_second(kind: Kind, tokenizer: PreTrainedTokenizerFast) -> None:
    if kind.start == ("<bos>",):
        assert encode_prompt(tokenizer, "<bos>What").count(tokenizer.bos_token_id) == 1


@pytest.mark.parametrize("template", [CHATML, "{{ bos_token }}" + CHATML], ids=["without", "with bos"])
def test_a_chat_template_alone_decides_on_bos(kind: Kind, template: str) -> None:
    tokenizer = tokenizer_of(kind, template)
    chat = [{"role": "user", "content": "hi"}]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    expected = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert encode_prompt(tokenizer, "hi") == expected
    assert expected.count(tokenizer.bos_token_id) == template.count("bos_token")
    messages = (Message(role="user", content="hi"),)
    assert script(tokenizer, messages).opening == expected
    whole = encode_conversation(tokenizer, (*messages, Message(role="assistant", content="yes"))).tokens
    assert whole[: len(expected)] == expected == encode_example(tokenizer, "hi", "yes").tokens[: len(expected)]
