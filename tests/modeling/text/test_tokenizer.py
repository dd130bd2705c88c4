from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from components.modeling.text.tokenizer import (
    ANSWER,
    EOS,
    PAD,
    PRINTABLE,
    THINK,
    describe_tokenizer,
    shared_phrases,
    train_tokenizer,
)
from components.modeling.text.tokenizer_config import TokenizerConfig

SUMS = [f"State the final answer: {a} + {b} =" for a in range(2, 9) for b in range(2, 9)]
WORDS = [f"Spell this word backward (example: sun -> nus): {word}" for word in ("cat", "tiger", "moon", "ox")]
PROMPTS = {"sums": SUMS, "words": WORDS}
TOKENIZER = train_tokenizer([], PROMPTS)
BYTES = train_tokenizer([], PROMPTS, TokenizerConfig(byte_fallback=True))
PIECES = st.sampled_from([THINK, ANSWER, EOS, PAD, "State the final answer: ", "State the ", " + "])
TEXTS = st.lists(st.text(alphabet=PRINTABLE, max_size=20) | PIECES, max_size=6).map("".join)


def decode(tokenizer, tokens):
    return tokenizer.decode(tokens, skip_special_tokens=False)


@given(text=TEXTS)
def test_any_text_of_the_alphabet_survives_a_round_trip(text: str) -> None:
    assert decode(TOKENIZER, TOKENIZER.encode(text, add_special_tokens=False)) == text


@given(text=st.text(max_size=30))
@settings(max_examples=200)
def test_with_byte_fallback_any_text_at_all_survives(text: str) -> None:
    assert decode(BYTES, BYTES.encode(text, add_special_tokens=False)) == text


def test_phrases_that_all_prompts_share_are_one_token_and_digits_are_separate() -> None:
    pieces = TOKENIZER.convert_ids_to_tokens(TOKENIZER.encode("State the final answer: 12 + 7 ="))
    assert pieces == ["State the final answer: ", "1", "2", " ", "+", " ", "7", " ", "="]
    assert TOKENIZER.tokenize(WORDS[0]) == ["Spell this word backward (example: sun -> nus): ", "c", "a", "t"]


def test_shared_phrases_splits_around_the_longest_one() -> None:
    prompts = ["Add 1 to 22 and name the sum.", "Add 34 to 5 and name the sum.", "Add 6 to 7 and name the sum."]
    assert shared_phrases(prompts, min_chars=4) == ["Add ", " to ", " and name the sum."]
    assert shared_phrases(prompts, min_chars=5) == [" and name the sum."]


def test_one_prompt_alone_shares_nothing() -> None:
    assert shared_phrases(["Add 1 to 2."], min_chars=4) == []


def test_marks_are_single_tokens_that_decoding_keeps() -> None:
    tokens = TOKENIZER.encode(f"{THINK}1+1=2{ANSWER}2{EOS}{PAD}")
    assert len(tokens) == 10
    assert TOKENIZER.decode(tokens, skip_special_tokens=True) == f"{THINK}1+1=2{ANSWER}2"


def test_unknown_characters_are_counted() -> None:
    assert describe_tokenizer(TOKENIZER, ["caf\u00e9", "abc"])["num_unknown"] == 1
    assert describe_tokenizer(BYTES, ["caf\u00e9"]) == {
        "num_vocabulary": len(BYTES),
        "num_texts": 1,
        "num_tokens": 5,
        "num_unknown": 0,
    }


def test_characters_of_the_texts_join_the_alphabet() -> None:
    tokenizer = train_tokenizer(["na\u00efve"], {})
    assert describe_tokenizer(tokenizer, ["na\u00efve"])["num_unknown"] == 0


@pytest.mark.parametrize("config", [TokenizerConfig(), TokenizerConfig(byte_fallback=True)])
def test_auto_tokenizer_loads_an_equal_one(tmp_path: Path, config: TokenizerConfig) -> None:
    ours = train_tokenizer([], PROMPTS, config)
    ours.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = f"{SUMS[5]}\n{THINK}2+3=5{ANSWER}5{EOS}"
    assert loaded.encode(text) == ours.encode(text)
    assert decode(loaded, loaded.encode(text)) == text
    assert loaded.get_vocab() == ours.get_vocab()
    assert (loaded.pad_token, loaded.eos_token) == (PAD, EOS)
    assert loaded.chat_template == ours.chat_template


def test_equal_inputs_give_equal_file_bytes_whatever_the_order_of_domains(tmp_path: Path) -> None:
    train_tokenizer(["b", "a"], PROMPTS).save_pretrained(tmp_path / "one")
    train_tokenizer(["a", "b"], dict(reversed(PROMPTS.items()))).save_pretrained(tmp_path / "two")
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert "tokenizer.json" in names
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
