"""Templates that ignore the generation prompt or drop system messages; and those without end, in a tokenizer."""

from __future__ import annotations

import time

import pytest

from components.contract.errors import InputError
from components.contract.messages import read_messages
from components.modeling.text.prompting import decode_response, encode_example, encode_prompt
from components.modeling.text.turns import encode_conversation, script
from tests.modeling.text.test_text_start import CHATML, KINDS, tokenizer_of

NO_GENERATION = CHATML.partition("{% if add")[0]
DROPS = CHATML.replace("{% for m in messages %}", "{% for m in messages if m['role'] != 'system' %}")
QWEN = KINDS["qwen"]
SYSTEM = {"role": "system", "content": "Be terse."}
USER, ANSWER = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}


def test_a_header_that_the_generation_prompt_lacks_is_part_of_the_prompt() -> None:
    ignoring, usual = tokenizer_of(QWEN, NO_GENERATION), tokenizer_of(QWEN, CHATML)
    assert encode_prompt(ignoring, "hi") == encode_prompt(usual, "hi")
    assert encode_example(ignoring, "hi", "yes") == encode_example(usual, "hi", "yes")
    tokens, mask = encode_example(ignoring, "hi", "yes")
    assert decode_response(ignoring, [t for t, m in zip(tokens, mask, strict=True) if m]) == "yes"
    talk = read_messages([SYSTEM, USER, ANSWER, USER, ANSWER])
    assert encode_conversation(ignoring, talk, learn="all") == encode_conversation(usual, talk, learn="all")
    assert script(ignoring, talk[:-1]) == script(usual, talk[:-1])


def test_a_blank_before_the_response_stays_the_responses() -> None:  # as Llama 2's, which has no generation prompt
    template = "{% for m in messages %}{% if m.role == 'user' %}[I] {{ m.content }} [/I]{% else %} {{ m.content }}<eos>"
    tokenizer = tokenizer_of(QWEN, template + "{% endif %}{% endfor %}")
    assert tokenizer.decode(encode_prompt(tokenizer, "hi")) == "[I] hi [/I]"


def test_a_template_that_drops_system_messages_is_refused_where_there_is_one() -> None:
    tokenizer = tokenizer_of(QWEN, DROPS)
    assert encode_prompt(tokenizer, "hi") == encode_prompt(tokenizer_of(QWEN, CHATML), "hi")
    for make in (
        lambda: script(tokenizer, read_messages([SYSTEM, USER])),
        lambda: encode_conversation(tokenizer, read_messages([SYSTEM, USER, ANSWER])),
    ):
        with pytest.raises(InputError, match="leaves system messages out") as raised:
            make()
        assert "\n" not in str(raised.value)


def test_a_template_without_end_is_one_line_every_time() -> None:
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}"
    tokenizer = tokenizer_of(QWEN, loops)
    begin = time.monotonic()
    for _ in range(20):  # tried once
        with pytest.raises(InputError, match=r"chat template cannot render .*more steps") as raised:
            encode_prompt(tokenizer, "hi")
        assert "\n" not in str(raised.value)
    assert time.monotonic() - begin < 10
