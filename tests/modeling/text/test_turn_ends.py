"""Which tokens end a turn: read from every place of a model folder, trained as one, cut off answers, kept on saving."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import GenerationConfig, PreTrainedTokenizerFast

from components.contract.errors import InputError
from components.modeling.loading.load import load_policy
from components.modeling.models.folder import generation_config, read_generation_config
from components.modeling.text.prompting import decode_response, decode_responses, encode_example, encode_prompts
from components.modeling.text.tokenizer import ANSWER, THINK, UNKNOWN, train_tokenizer
from components.modeling.text.turn_ends import TurnEnds, find_turn_ends, template_end
from tests.modeling.chat_models import LAYOUTS, QWEN_BASE, build_tokenizer, save_model

TINY = train_tokenizer([], {"sums": ["Add 1 and 2.", "Add 3 and 4."]})
ALL = [
    ("qwen2.5-base", ("<|im_end|>", "<|endoftext|>")),
    ("qwen2.5-instruct", ("<|im_end|>", "<|endoftext|>")),
    ("qwen3", ("<|im_end|>", "<|endoftext|>")),
    ("qwen3-base", ("<|im_end|>", "<|endoftext|>")),
    ("llama3", ("<|eot_id|>", "<|end_of_text|>")),
    ("llama3.1", ("<|eot_id|>", "<|end_of_text|>", "<|eom_id|>")),
    ("gemma3", ("<end_of_turn>", "<eos>")),
    ("mistral", ("</s>",)),
    ("phi3", ("<|end|>", "<|endoftext|>", "<|assistant|>")),
]


def tokenizer_with(template: str | None, **changes: Any) -> PreTrainedTokenizerFast:
    """Return the tokenizer of Qwen2.5's base models with another template."""
    return build_tokenizer(replace(QWEN_BASE, template=template, **changes))


def targets(tokenizer: PreTrainedTokenizerFast, response: str, ends: TurnEnds | None = None) -> str:
    """Return what the loss of an example covers, as text."""
    example = encode_example(tokenizer, "Say 1.", response, ends)
    return tokenizer.decode([t for t, mine in zip(example.tokens, example.loss_mask, strict=True) if mine])


@pytest.mark.parametrize(("name", "expected"), ALL)
def test_a_model_ends_at_any_end_that_its_folder_names(name: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    layout = LAYOUTS[name]
    tokenizer = save_model(layout, tmp_path)
    policy = load_policy(tmp_path)
    assert policy.eos_ids == tuple(tokenizer.convert_tokens_to_ids(list(expected)))
    assert policy.tokenizer is not None
    thought = "<think>\n\n</think>\n\n" if layout.text_marks[:1] == ("<think>",) else ""
    assert targets(policy.tokenizer, "5", policy.ends).strip() == f"{thought}5{layout.turn_end}"
    for mark in expected:  # whichever end was sampled, and whatever came behind it
        tokens = [*tokenizer.encode("5", add_special_tokens=False), tokenizer.convert_tokens_to_ids(mark), 9, 9]
        assert decode_response(policy.tokenizer, tokens, policy.ends) == "5"


def test_all_layouts_are_told_apart_by_their_ends() -> None:
    assert [name for name, _ in ALL] == list(LAYOUTS) and len(ALL) >= 9


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_generation_config_is_kept_with_the_whole_list_of_ends(name: str, tmp_path: Path) -> None:
    save_model(LAYOUTS[name], tmp_path / "a")
    stored = read_generation_config(tmp_path / "a")
    assert stored is not None
    policy = load_policy(tmp_path / "a")
    policy.save(tmp_path / "b")
    kept = json.loads((tmp_path / "b" / "generation_config.json").read_text())
    listed = kept.pop("eos_token_id")
    before = stored.pop("eos_token_id")
    assert kept == stored
    before = before if isinstance(before, list) else [before]
    assert (listed if isinstance(listed, list) else [listed])[: len(before)] == before
    assert set(listed if isinstance(listed, list) else [listed]) == set(policy.eos_ids)
    again = load_policy(tmp_path / "b")
    assert again.ends == policy.ends
    again.save(tmp_path / "c")
    names = {path.name for path in (tmp_path / "b").iterdir()} - {"config.json"}  # transformers writes its version
    assert all((tmp_path / "b" / n).read_bytes() == (tmp_path / "c" / n).read_bytes() for n in names)


def test_a_generation_config_that_is_no_longer_that_of_the_config_does_not_say_so() -> None:
    stored = {"_from_model_config": True, "eos_token_id": 5, "top_k": 3}
    assert generation_config(stored, (5,), 0) == stored
    assert generation_config(stored, (7, 5), 0) == {"eos_token_id": [5, 7], "top_k": 3}
    assert generation_config({"top_k": 3}, (7,), 0) == {"eos_token_id": 7, "top_k": 3}
    assert generation_config(None, (7, 8), 4) == {"eos_token_id": [7, 8], "pad_token_id": 4}
    assert generation_config(None, (), 0) == {"eos_token_id": None, "pad_token_id": 0}
    assert GenerationConfig.from_dict(generation_config(stored, (7, 5), 0)).eos_token_id == [5, 7]


def test_what_the_template_writes_behind_the_mark_is_not_trained() -> None:
    phi = build_tokenizer(LAYOUTS["phi3"])
    assert template_end(phi).tail == "<|end|>\n<|endoftext|>"
    assert targets(phi, "5") == "5<|end|>"
    plain = tokenizer_with("{% for m in messages %}{{ m['content'] }}\n\n{% endfor %}")
    assert template_end(plain).token is None
    assert targets(plain, "5") == "5<|endoftext|>"  # no mark: the content, and eos
    assert targets(tokenizer_with(None), "5") == "5<|endoftext|>"
    assert targets(TINY, "5") == "5<|eos|>"


def test_an_end_inside_a_demonstration_ends_it() -> None:
    assert targets(tokenizer_with(QWEN_BASE.template), "5<|endoftext|>6") == "5<|endoftext|>"
    assert targets(tokenizer_with(QWEN_BASE.template), "5<|im_end|>6") == "5<|im_end|>"


def test_control_tokens_are_no_text_and_marks_of_answers_are() -> None:
    tokenizer = tokenizer_with(QWEN_BASE.template, text_marks=("<tool_call>",))
    tokenizer.add_special_tokens({"additional_special_tokens": ["<answer>", "</answer>", "<|box|>"]})
    text = "<|im_start|>1<tool_call><answer>4<|box|>2</answer>"
    tokens = tokenizer.encode(f"{text}<|im_end|>\n", add_special_tokens=False)
    assert decode_response(tokenizer, tokens) == "1<tool_call><answer>42</answer>"


def test_control_tokens_that_an_item_names_are_part_of_the_answers_to_it() -> None:
    tokenizer = tokenizer_with(QWEN_BASE.template)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|box|>", "<|other|>"]})
    ends = find_turn_ends(tokenizer)
    rows = [tokenizer.encode("<|other|><|box|>4<|im_end|>", add_special_tokens=False)] * 3
    wordings = ["Answer behind <|box|>, and then <|im_end|>.", "Say 4.", r'{"pattern": "<\|box\|>\\d+"}']
    assert decode_responses(tokenizer, rows, ends, wordings=wordings) == ["<|box|>4", "4", "<|box|>4"]
    assert decode_responses(tokenizer, rows, ends, wordings=["Say 4."] * 3) == ["4"] * 3


def test_control_tokens_that_the_recipe_names_are_text() -> None:
    tokenizer = tokenizer_with(QWEN_BASE.template, text_marks=("<tool_call>",))
    tokenizer.add_special_tokens({"additional_special_tokens": ["[THINK]", "[/THINK]", "<|box|>"]})
    ends = find_turn_ends(tokenizer)
    row = tokenizer.encode("[THINK]1<|box|>[/THINK]<tool_call>4<|im_end|>", add_special_tokens=False)
    assert decode_response(tokenizer, row, ends) == "1<tool_call>4"
    kept = ends.keeping(["[THINK]", "[/THINK]", "<tool_call>"], tokenizer)
    assert decode_response(tokenizer, row, kept) == "[THINK]1[/THINK]<tool_call>4"
    assert kept.ids == ends.ids and kept.padding == ends.padding
    with pytest.raises(InputError, match=r"names '\[THINKS\]', which is no token.*did you mean '\[THINK\]'"):
        ends.keeping(["[THINKS]"], tokenizer)
    with pytest.raises(InputError, match=r"names '<\|im_end\|>', which ends the model's responses"):
        ends.keeping(["<|im_end|>"], tokenizer)


def test_the_tiny_tokenizer_writes_what_it_wrote() -> None:
    tokens = TINY.encode(f"{THINK}1{UNKNOWN}{ANSWER}7<|eos|>9")
    assert decode_response(TINY, [TINY.pad_token_id, *tokens]) == f"{THINK}1{UNKNOWN}{ANSWER}7"
    ends = find_turn_ends(TINY, {"eos_token_id": TINY.eos_token_id})
    assert ends == TurnEnds((TINY.eos_token_id,), frozenset({TINY.pad_token_id}))


def test_many_responses_are_decoded_as_each_alone() -> None:
    for tokenizer in (TINY, build_tokenizer(LAYOUTS["qwen2.5-base"]), build_tokenizer(LAYOUTS["phi3"])):
        rows = [tokenizer.encode(text, add_special_tokens=False) for text in ("Say 1.", "5 ", "", " a\nb")]
        rows[1].append(find_turn_ends(tokenizer).trained)
        assert decode_responses(tokenizer, rows) == [decode_response(tokenizer, row) for row in rows]
        alone = [tokenizer.decode(row, clean_up_tokenization_spaces=False) for row in (rows[0], rows[3])]
        assert decode_responses(tokenizer, [rows[0], rows[3]]) == alone
    assert decode_responses(TINY, []) == []


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "{% for m in messages %}{{ m['content'] }}[END]\n{% endfor %}",
            r"ends a turn with '\[END\]', which is no token",
        ),
        ("{{ messages[0]['content'] }}<|im_end|>", "leaves the assistant's message out"),
        ("{{ raise_exception('a system turn comes first') }}", r"cannot render .*a system turn comes first"),
        ("{% for m in messages %}", r"cannot render .*TemplateSyntaxError"),
        ("{{ messages[5]['content'] + 1 }}", "cannot render"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_in_one_line(template: str, message: str) -> None:
    tokenizer = tokenizer_with(template)
    for attempt in (lambda: encode_prompts(tokenizer, ["Say 1."]), lambda: encode_example(tokenizer, "Say 1.", "1")):
        with pytest.raises(InputError, match=message) as caught:
            attempt()
        assert "\n" not in str(caught.value)


def test_prompts_are_the_same_on_any_day() -> None:
    date = "{%- if not date_string is defined %}{%- set date_string = strftime_now('%d %b %Y') %}{%- endif %}"
    tokenizer = tokenizer_with(f"{date}Today Date: {{{{ date_string }}}}\n{QWEN_BASE.template}")
    (prompt,) = encode_prompts(tokenizer, ["Say 1."])
    assert tokenizer.decode(prompt).startswith("Today Date: 26 Jul 2024<|im_start|>")


def test_named_templates_are_used_by_their_default() -> None:
    named = {"default": QWEN_BASE.template, "tool_use": "{{ 1 / 0 }}"}
    assert targets(tokenizer_with(named), "5") == "5<|im_end|>"  # type: ignore[arg-type]


def test_a_model_without_any_end_is_refused_before_it_is_sampled() -> None:
    tokenizer = tokenizer_with(None, names={})
    with pytest.raises(InputError, match=r"no eos_token.*generation_config.json.*no response could ever end"):
        encode_prompts(tokenizer, ["Say 1."], find_turn_ends(tokenizer, {}, {"eos_token_id": None}))
    mark = tokenizer.convert_tokens_to_ids("<|im_end|>")
    for places in ({"config": {"eos_token_id": mark}}, {"generation": {"eos_token_id": [mark]}}):
        assert targets(tokenizer, "5", find_turn_ends(tokenizer, **places)) == "5<|im_end|>"
    nested = find_turn_ends(tokenizer, {"text_config": {"eos_token_id": mark}})  # of models that see
    assert nested.ids == (mark,)


def test_ends_that_the_model_cannot_have_are_refused(tmp_path: Path) -> None:
    tokenizer = save_model(QWEN_BASE, tmp_path)
    path = tmp_path / "generation_config.json"
    path.write_text('{"eos_token_id": "</s>"}')
    with pytest.raises(InputError, match=r"generation_config\.json: eos_token_id is '</s>', not a token's number"):
        load_policy(tmp_path)
    path.write_text("{")
    with pytest.raises(InputError, match=r"generation_config.json cannot be read as JSON"):
        load_policy(tmp_path)
    path.write_text('{"eos_token_id": [-1]}')
    assert len(load_policy(tmp_path).eos_ids) == 2
    tokenizer.add_special_tokens({"additional_special_tokens": [f"<|{n}|>" for n in range(9)]})
    tokenizer.chat_template = str(QWEN_BASE.template).replace("<|im_end|>", "<|8|>")
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"the model has \d+ tokens"):
        load_policy(tmp_path)
