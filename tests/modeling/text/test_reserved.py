"""The reserved token: one that texts, padding, ends and the chat template do without."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken

from components.contract.errors import InputError
from components.modeling.text.reserved import reserved_token
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.modeling.text.turn_ends import find_turn_ends


def test_the_tiny_tokenizer_reserves_the_unknown_token() -> None:
    for template in ("plain", "roles"):
        tokenizer = train_tokenizer(["ab"], {}, TokenizerConfig(chat_template=template))  # type: ignore[arg-type]
        assert reserved_token(tokenizer, find_turn_ends(tokenizer, {}, None)) == tokenizer.unk_token_id


def test_a_token_of_the_chat_template_is_not_reserved_by_itself_and_any_other_by_its_name() -> None:
    tokenizer = train_tokenizer(["ab"], {})
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|box|>", AddedToken("<|quad|>")]})
    tokenizer.unk_token = "<|im_start|>"
    tokenizer.chat_template = "<|unk|><|im_start|>{{ messages[0]['content'] }}<|eos|>"
    ends = find_turn_ends(tokenizer, {}, None)
    assert tokenizer.convert_ids_to_tokens(reserved_token(tokenizer, ends)) == "<|box|>"
    assert tokenizer.convert_ids_to_tokens(reserved_token(tokenizer, ends, "<|quad|>")) == "<|quad|>"
    with pytest.raises(InputError, match=r"no special token '<\|none\|>' \(it has '<\|pad\|>', "):
        reserved_token(tokenizer, ends, "<|none|>")
    with pytest.raises(InputError, match="ends responses"):
        reserved_token(tokenizer, ends, "<|eos|>")
    tokenizer.chat_template += "<|box|><|quad|>"
    with pytest.raises(InputError, match="every special token"):
        reserved_token(tokenizer, ends)
