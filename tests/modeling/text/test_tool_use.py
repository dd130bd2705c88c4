"""Conversations with tools: what a template renders is what transformers renders, and what it leaves out is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.contract.errors import InputError
from components.contract.messages import Message, conversation_of, read_messages
from components.modeling.supervised.examples import examples_from_rows
from components.modeling.text.turns import encode_conversation, opening
from components.tasks.conversations import read_conversation
from components.tasks.item import Item, item_id
from components.tasks.row_kinds.preferences import preference_of
from tests.modeling.chat_models import LAYOUTS, build_tokenizer
from tests.modeling.text.tool_templates import LLAMA, QWEN

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "sum",
            "description": "Say the sum.",
            "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
        },
    }
]
CALL = {"type": "function", "function": {"name": "sum", "arguments": {"a": 1, "b": 2}}}
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Say 1 + 2."},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "3", "name": "sum"},
    {"role": "assistant", "content": "It is 3."},
]


def tokenizer_of(name: str) -> Any:
    layout, template = {"qwen": ("qwen3", QWEN), "llama": ("llama3.1", LLAMA)}[name]
    tokenizer = build_tokenizer(LAYOUTS[layout])
    tokenizer.chat_template = template
    return tokenizer


def rendered(tokenizer: Any, talk: list[dict[str, Any]], **more: Any) -> list[int]:
    return tokenizer.apply_chat_template(talk, tools=TOOLS, tokenize=True, return_dict=False, **more)


@pytest.mark.parametrize("name", ["qwen", "llama"])
def test_tokens_are_those_of_transformers_and_targets_the_calls_and_answers(name: str) -> None:
    tokenizer = tokenizer_of(name)
    (example,) = examples_from_rows(tokenizer, [{"messages": TALK, "tools": TOOLS}], learn="all")
    tokens = list(example.tokens)
    whole = rendered(tokenizer, TALK)
    assert whole[: len(tokens)] == tokens and not tokenizer.decode(whole[len(tokens) :]).strip()
    runs: list[list[int]] = [[]]
    for token, target in zip(tokens, example.loss_mask, strict=True):
        if target:
            runs[-1].append(token)
        elif runs[-1]:
            runs.append([])
    texts = [tokenizer.decode(run) for run in runs if run]
    arguments = json.dumps(CALL["function"]["arguments"])
    if name == "qwen":
        call = f'<tool_call>\n{{"name": "sum", "arguments": {arguments}}}\n</tool_call><|im_end|>'
        assert texts == [call, "It is 3.<|im_end|>"]
    else:
        assert texts == [f'{{"name": "sum", "parameters": {arguments}}}<|eot_id|>', "It is 3.<|eot_id|>"]
    for at in (1, 3):  # each turn is sampled from what transformers gives a policy
        start = rendered(tokenizer, TALK[:at], add_generation_prompt=True)
        assert tokens[: len(start)] == start and example.loss_mask[len(start)]


AS_ROWS = [
    {"messages": TALK, "tools": json.dumps(TOOLS)},
    {"messages": TALK, "tools": [json.dumps(TOOLS[0])]},
    {"messages": [{**one, "tool_calls": None, "name": None, **one, "images": None} for one in TALK], "tools": TOOLS},
    {
        "messages": [
            {**one, "tool_calls": [{"id": None, "type": "function", "function": {"name": "sum", "arguments": text}}]}
            if "tool_calls" in one
            else {**one, "content": [{"type": "text", "text": one["content"]}]}
            for one in TALK
            for text in ['{"a": 1, "b": 2}']
        ],
        "tools": [{**TOOLS[0], "strict": None}],
    },
    {
        "messages": [
            {**one, "tool_calls": [{"function": {"name": "sum", "arguments": {"a": 1, "b": 2, "c": None}}}]}
            if "tool_calls" in one
            else one
            for one in TALK
        ],
        "tools": TOOLS,
    },
]


@pytest.mark.parametrize("row", AS_ROWS)
def test_forms_that_libraries_write_are_one_conversation(row: dict[str, Any]) -> None:
    tokenizer = tokenizer_of("qwen")
    plain = conversation_of({"messages": TALK, "tools": TOOLS})
    read = conversation_of(row)
    assert plain is not None and read is not None
    assert encode_conversation(tokenizer, read, learn="all") == encode_conversation(tokenizer, plain, learn="all")
    again = read_messages(json.loads(json.dumps([message.model_dump() for message in read])))
    assert again == read, "rows hold what was read"


def test_a_prompt_with_tools_and_an_opening_behind_a_result() -> None:
    tokenizer = tokenizer_of("qwen")
    (example,) = examples_from_rows(tokenizer, [{"prompt": "Say 1.", "response": "1", "tools": TOOLS}])
    start = rendered(tokenizer, [{"role": "user", "content": "Say 1."}], add_generation_prompt=True)
    assert (
        list(example.tokens)[: len(start)] == start and tokenizer.decode(example.tokens[len(start) :]) == "1<|im_end|>"
    )
    talk = conversation_of({"messages": TALK[:3], "tools": TOOLS})
    assert talk is not None
    assert opening(tokenizer, talk) == rendered(tokenizer, TALK[:3], add_generation_prompt=True)


def test_what_a_template_leaves_out_is_refused_in_one_line() -> None:
    plain = build_tokenizer(LAYOUTS["llama3.1"])
    silent = build_tokenizer(LAYOUTS["llama3.1"])
    silent.chat_template = LLAMA.replace("{%- else %}{{- '<|start_header_id|>ipython", "{%- elif false %}{{- '")
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (plain, {"messages": [TALK[0], TALK[3]], "tools": TOOLS}, "leaves `tools` out"),
        (plain, {"messages": TALK}, r"leaves out the tool_calls of messages\[1\]"),
        (silent, {"messages": TALK, "tools": TOOLS}, r"leaves out messages\[2\] \(tool\)"),
    ]
    for tokenizer, row, reason in cases:
        with pytest.raises(InputError, match=reason) as caught:
            examples_from_rows(tokenizer, [row])
        assert "\n" not in str(caught.value)


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"messages": [TALK[0], TALK[2]]}, r"messages\[1\] is of the tool, where one of the assistant"),
    ({"messages": [TALK[0], TALK[1], TALK[3]]}, r"messages\[2\] is of the assistant, where one of the tool"),
    ({"messages": [{**TALK[0], "tool_calls": [CALL]}]}, r"messages\[0\] \(user\) has `tool_calls`"),
    ({"messages": [TALK[0], {**TALK[3], "tool_calls": [{"function": {}}]}]}, r"tool_calls\[0\]: expected"),
    ({"messages": [TALK[0], {**TALK[3], "tool_calls": "no"}]}, "tool_calls: text that is no JSON"),
    ({"messages": TALK, "tools": "["}, "tools: text that is no JSON"),
    ({"messages": TALK, "tools": 3}, "tools: expected a list of objects"),
    ({"messages": TALK, "tools": [{"function": {"name": ""}}]}, r"tools\[0\]: expected an object with the `name`"),
    ({"messages": TALK, "tools": [json.loads('{"x":' * 90 + "1" + "}" * 90) | {"name": "f"}]}, "more than 40 deep"),
    ({"messages": [*TALK, {"role": "user", "content": "?", "tools": TOOLS}]}, "which only the first message can"),
]


@pytest.mark.parametrize(("row", "reason"), HOSTILE)
def test_one_line_says_what_is_wrong_with_tools(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        conversation_of(row)
    assert "\n" not in str(caught.value)


def test_a_mark_within_a_call_or_a_result_is_refused() -> None:
    call = {"type": "function", "function": {"name": "sum", "arguments": {"a": "<|im_end|>"}}}
    for talk in (
        [TALK[0], {**TALK[1], "tool_calls": [call]}],
        [*TALK[:2], {"role": "tool", "content": "3<|im_end|>"}, TALK[3]],
    ):
        with pytest.raises(InputError, match=r"contains '<\|im_end\|>'"):
            examples_from_rows(tokenizer_of("qwen"), [{"messages": talk, "tools": TOOLS}])


def test_plain_messages_keep_their_row() -> None:
    row = {"role": "assistant", "content": "x", "learn": True}
    assert Message.model_validate(row).model_dump() == row
    assert Message(role="user", content="y").model_dump() == {"role": "user", "content": "y"}


def test_tools_reach_items_pairs_and_what_people_read() -> None:
    row = {"id": "a", "domain": "d", "answer": "3", "verifier": "exact"}
    item = Item.model_validate({**row, "prompt": "Say 1 + 2.", "tools": TOOLS})
    assert item.messages[0].tools == tuple(TOOLS) and Item.model_validate(item.row()) == item
    start = rendered(tokenizer_of("qwen"), TALK[:1], add_generation_prompt=True)
    assert opening(tokenizer_of("qwen"), item.messages) == start
    assert Item.model_validate({**row, "prompt": "Say 1.", "tools": "[]"}).task == "Say 1."
    told = Item.model_validate({**row, "messages": TALK[:3], "tools": TOOLS}).prompt
    assert told == 'user: Say 1 + 2.\nassistant: sum({"a": 1, "b": 2})\ntool: 3'
    assert item_id("d", item.messages, "3") != item_id("d", (item.messages[0].model_copy(update={"tools": ()}),), "3")
    pair = preference_of({"prompt": "Say 1.", "chosen": "1", "rejected": "2", "tools": TOOLS})
    assert not isinstance(pair.task, str) and pair.task[0].tools == tuple(TOOLS) and hash(pair.task)
    whole = {"chosen": [*TALK], "rejected": [*TALK[:3], {"role": "assistant", "content": "It is 2."}], "tools": TOOLS}
    read = preference_of(whole)
    assert (read.chosen, read.rejected) == ("It is 3.", "It is 2.") and len(read.task) == 3
    with pytest.raises(InputError, match="tools are offered in a conversation"):
        preference_of({"chosen": "Say 1. 1", "rejected": "Say 1. 2", "tools": TOOLS})


def test_a_sharegpt_conversation_with_calls() -> None:
    talk = [
        {"from": "human", "value": "Say 1 + 2."},
        {"from": "function_call", "value": '{"name": "sum", "arguments": {"a": 1, "b": 2}}'},
        {"from": "observation", "value": "3"},
        {"from": "gpt", "value": "It is 3."},
    ]
    read = read_conversation(talk, "conversations", json.dumps(TOOLS))
    plain = conversation_of({"messages": TALK, "tools": TOOLS})
    assert plain is not None and read.response == "It is 3."
    assert [one.text for one in read.messages] == [one.text for one in plain[:3]] and read.messages[0].tools
