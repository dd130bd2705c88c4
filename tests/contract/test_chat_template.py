"""Chat templates render as in transformers, and those without end or bound are refused in time."""

from __future__ import annotations

import time

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from components.contract.chat_template import ERRORS, render
from components.contract.template_budget import MAX_SECONDS

CHAT = [
    {"role": "system", "content": " Be  terse.\n"},
    {"role": "user", "content": "Six <b>sevens</b> & 'more'?\n\nä"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\n42"},
    {"role": "user", "content": "Why?"},
]
ROLE = "<|{{ m['role'] }}|>"
HONEST = {
    "chatml": "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "llama 3": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|h|>' + "
    "message['role'] + '<|/h|>\n\n' + message['content'] | trim + '<|eot|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}",
    "first system": "{%- if messages[0].role == 'system' %}\n    {{- 'S:' + messages[0].content ~ '\n' }}\n"
    "{%- set rest = messages[1:] %}{%- else %}{%- set rest = messages %}{%- endif %}\n"
    "{%- for m in rest %}\n{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('order') }}"
    "{% endif %}\n  {{ m.content }}{% if not loop.last %}|{% endif %}{{ loop.length }}{%- endfor %}",
    "namespace, reversed, split": "{%- set ns = namespace(last=messages|length - 1, text='') %}"
    "{%- for m in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}"
    "{%- if ns.last and m.role == 'user' and not(m.content.startswith('<tool')) %}{%- set ns.last = index %}"
    "{%- endif %}{%- endfor %}{% for m in messages %}{%- if '</think>' in m.content %}"
    "{{- m.content.split('</think>')[-1].lstrip('\n') }}{% else %}{{ m.content }}{% endif %}{% endfor %}{{ ns.last }}",
    "tojson, join, format, dict": "{{ messages | tojson(indent=2) }}{{ messages | map(attribute='role') | join(', ') }}"
    "{{ '**%s** %5d' % ('x', 3) }}{{ '{:>8}'.format('y') }}{% set d = dict(a=1, b=[2, (3, 4)]) %}"
    "{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}{{ {'z': none} }}",
    "macro, break, loop": "{% macro turn(m, last=false) %}[{{ m.role|upper }}: {{ m.content|replace('s', 'SS') }}]"
    "{% endmacro %}{% for m in messages %}{% if loop.index > 3 %}{% break %}{% endif %}{{ turn(m, last=loop.last) }}"
    "{{ loop.previtem.role if loop.previtem is defined else '-' }}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}",
    "tests and tools": "{% if tools is not none and tools %}T{% endif %}{% if x is not defined %}{{ date_string }}"
    "{% endif %}{% for m in messages if m.role in ['user', 'assistant'] %}{{ loop.index }}{{ m.content is string }}"
    "{{ m['content'][:3] }}{% endfor %}{% set y %}kept {{ eos_token }}{% endset %}{{ y * 2 }}{{ 7 // 2 }}{{ 2 ** 5 }}",
}
DOUBLED = 60
ENDLESS = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
    "empty loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a product": "{{ 'a' * 10**10 }}",
    "joined twice": "{% set x = 'aaaa' %}" + "{% set x = x ~ x %}" * DOUBLED,
    "added twice": "{% set x = 'aaaa' %}" + "{% set x = x + x %}" * DOUBLED,
    "blocks": "{% set x %}aaaa{% endset %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * DOUBLED,
    "lists": "{% set x = [1] %}" + "{% set x = [x, x] %}" * DOUBLED + "{{ x }}",
    "mappings": "{% set x = 1 %}" + "{% set x = dict(a=x, b=x) %}" * DOUBLED + "{{ x }}",
    "a macro": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(1) }}",
    "two macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "a filter": "{{ 'a' | center(10000000000) }}",
    "a method": "{{ 'a'.ljust(10000000000) }}",
    "a format": "{{ '%010000000000d' % 3 }}",
    "a star": "{{ '%*d' % (10000000000, 3) }}",
    "a width in a width": "{{ '{:{}}'.format(3, 10000000000) }}",
    "replacement": "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}",
    "a join": "{{ ('b' * 100000).join(range(99999) | map('string') | list) }}",
    "an indent": "{{ messages | tojson(indent=1000000000) }}",
    "a power": "{{ 2 ** (2 ** (2 ** 30)) }}",
    "an attribute": "{% set n = namespace(x='a') %}{% for i in range(999) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "recursion": "{% for a in messages recursive %}{{ loop(range(99999)) }}{% endfor %}",
    "parentheses": "{{ " + "(" * 5000 + ")" * 5000 + " }}",
    "its own length": "x" * 300_000,
}


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("generation", [False, True])
def test_renders_as_transformers(name: str, generation: bool) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = HONEST[name]
    expected = tokenizer.apply_chat_template(
        CHAT, tokenize=False, add_generation_prompt=generation, date_string="26 Jul 2024"
    )
    special = {**tokenizer.special_tokens_map, "date_string": "26 Jul 2024"}
    assert render(HONEST[name], CHAT, generation=generation, **special) == expected


@pytest.mark.parametrize("name", ENDLESS)
def test_a_template_without_end_is_refused_in_time(name: str) -> None:
    begin = time.monotonic()
    with pytest.raises(ERRORS) as raised:
        render(ENDLESS[name], CHAT, generation=True)
    assert time.monotonic() - begin < 3 * MAX_SECONDS
    assert "\n" not in str(raised.value)


def test_long_honest_conversations_are_rendered() -> None:
    chat = [{"role": role, "content": "x" * 3000} for _ in range(400) for role in ("user", "assistant")]
    text = render(HONEST["chatml"], chat, generation=True)
    assert len(text) > 800 * 3000
    grown = "{% set n = namespace(t='') %}{% for m in messages %}{% set n.t = n.t + m.content %}{% endfor %}{{ n.t }}"
    assert len(render(grown, chat[:200], generation=True)) == 200 * 3000
