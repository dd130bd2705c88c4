"""Conversations as tokens, on the layouts of published chat models and on the tiny ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.messages import Message, filled
from components.modeling.text.prompting import encode_example, encode_prompt
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.modeling.text.turn_ends import find_turn_ends
from components.modeling.text.turns import encode_conversation, following, opening, script
from tests.modeling.chat_models import CHATML, LAYOUTS, build_tokenizer

SUMS = {"sums": ["Add 1 and 2.", "Add 3 and 4."]}
TOKENIZERS = {
    **{name: build_tokenizer(layout) for name, layout in LAYOUTS.items()},
    "tiny": train_tokenizer([], SUMS),
    "tiny-roles": train_tokenizer([], SUMS, TokenizerConfig(chat_template="roles")),
}
NAMES = list(TOKENIZERS)
# As Qwen3's template: the thought of a turn is shown only while no user's message follows.
DROPS_THINKING = CHATML.replace(
    "{{- '<|im_start|>' + message.role + '\n' + message.content",
    "{%- set content = message.content if loop.last else message.content.split('</think>')[-1] %}"
    "{{- '<|im_start|>' + message.role + '\n' + content",
)
USER, AGAIN, LAST = "Say 1.", "Say 2.", "Say 3."
OPEN = Message(role="assistant", content=None)
TEXT = st.text(alphabet="Say 0123456789.", min_size=1, max_size=12).filter(lambda text: text.strip() == text)


def user(text: str) -> Message:
    return Message(role="user", content=text)


def assistant(text: str, *, learn: bool | None = None) -> Message:
    return Message(role="assistant", content=text, learn=learn)


@pytest.mark.parametrize("name", NAMES)
def test_one_user_message_is_the_prompt(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    assert opening(tokenizer, [user(USER)]) == encode_prompt(tokenizer, USER)


@pytest.mark.parametrize("name", NAMES)
def test_one_pair_is_the_example(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    assert encode_conversation(tokenizer, [user(USER), assistant("1")]) == encode_example(tokenizer, USER, "1")


@pytest.mark.parametrize("name", NAMES)
def test_turns_that_a_policy_writes_one_by_one_have_the_tokens_that_training_has(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    messages = [user(USER), OPEN, user(AGAIN), OPEN, user(LAST)]
    whole = encode_conversation(tokenizer, filled(messages, ["1", "2", "3"]), learn="all")
    walked = opening(tokenizer, messages)
    for turn in range(3):
        start = len(walked)
        stop = start + whole.loss_mask[start:].index(False) if turn < 2 else len(whole.tokens)
        written = whole.tokens[start:stop]
        assert all(whole.loss_mask[start:stop])
        assert written[-1] in find_turn_ends(tokenizer).ids
        walked += written
        if turn < 2:
            walked += following(tokenizer, messages, turn, written)
    assert walked == whole.tokens


@pytest.mark.parametrize("name", NAMES)
def test_the_tokens_are_those_of_the_rendered_conversation(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    messages = filled([user(USER), OPEN, user(AGAIN)], ["1", "2"])
    plain = [{"role": message.role, "content": message.content} for message in messages]
    rendered = tokenizer.apply_chat_template(plain, tokenize=False)
    whole = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    tokens = encode_conversation(tokenizer, messages).tokens
    assert tokens == whole[: len(tokens)]
    assert tokenizer.decode(whole[len(tokens) :], skip_special_tokens=True).strip() == ""


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=20)
@given(texts=st.lists(TEXT, min_size=3, max_size=3), answers=st.lists(TEXT, min_size=3, max_size=3))
def test_the_beginning_of_a_conversation_is_a_prefix(name: str, texts: list[str], answers: list[str]) -> None:
    tokenizer = TOKENIZERS[name]
    whole = filled([user(texts[0]), OPEN, user(texts[1]), OPEN, user(texts[2])], answers)
    tokens = encode_conversation(tokenizer, whole).tokens
    for k in range(1, 6):
        part = whole[:k]
        start = opening(tokenizer, part) if k % 2 else encode_conversation(tokenizer, part).tokens
        assert tokens[: len(start)] == start


@pytest.mark.parametrize("name", NAMES)
def test_a_turn_that_was_cut_gets_its_end_first(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    messages = [user(USER), OPEN, user(AGAIN)]
    end = find_turn_ends(tokenizer).trained
    (word,) = tokenizer.encode("1", add_special_tokens=False)[-1:]
    plain = following(tokenizer, messages, 0)
    assert plain == following(tokenizer, messages, 0, [word, end])
    assert [end, *plain] == following(tokenizer, messages, 0, [word]) == following(tokenizer, messages, 0, [])
    assert end not in plain[:1]


def test_a_turn_that_ended_with_another_end_gets_the_mark_of_the_template_too() -> None:
    tokenizer = TOKENIZERS["llama3.1"]
    eom, eot = tokenizer.convert_tokens_to_ids(["<|eom_id|>", "<|eot_id|>"])
    assert following(tokenizer, [user(USER), OPEN, user(AGAIN)], 0, [eom])[0] == eot


@pytest.mark.parametrize("name", ["qwen2.5-base", "llama3", "phi3", "tiny", "tiny-roles"])
def test_a_system_message_comes_first(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    system = Message(role="system", content="Say 9.")
    messages = [system, user(USER), OPEN, user(AGAIN)]
    found = script(tokenizer, messages)
    assert "Say 9." in tokenizer.decode(found.opening)
    assert "Say 9." not in tokenizer.decode(found.gaps[0])


def test_a_given_turn_is_part_of_the_opening() -> None:
    tokenizer = TOKENIZERS["qwen2.5-base"]
    messages = [user(USER), assistant("1"), user(AGAIN)]
    found = script(tokenizer, messages)
    assert found.gaps == ()
    assert "\n1<|im_end|>\n" in tokenizer.decode(found.opening)


def test_loss_covers_the_turns_that_are_asked_for() -> None:
    tokenizer = TOKENIZERS["tiny"]
    messages = [user("1"), assistant("2", learn=True), user("3"), assistant("4"), user("5"), assistant("6")]

    def targets(learn: str) -> str:
        tokens, mask = encode_conversation(tokenizer, messages, learn=learn)
        return tokenizer.decode([token for token, target in zip(tokens, mask, strict=True) if target])

    assert targets("last") == "6<|eos|>"
    assert targets("all") == "2<|eos|>4<|eos|>6<|eos|>"
    assert targets("marked") == "2<|eos|>"


def test_a_template_that_drops_earlier_thinking_is_refused_with_the_text_that_diverges() -> None:
    tokenizer = build_tokenizer(LAYOUTS["qwen3"])
    tokenizer.chat_template = DROPS_THINKING
    with pytest.raises(InputError, match=r"changes earlier turns: what is '<think>\\nSix sevens.*becomes '\\n\\nforty"):
        script(tokenizer, [user(USER), OPEN, user(AGAIN)])
    assert opening(tokenizer, [user(USER)]) == encode_prompt(tokenizer, USER)
    thought = filled([user(USER), OPEN, user(AGAIN)], ["<think>7</think>1", "2"])
    with pytest.raises(InputError, match=r"changes earlier turns: what is '<think>7</think>1.*learn: last"):
        encode_conversation(tokenizer, thought, learn="all")


def test_behind_dropped_thoughts_the_last_turn_has_the_context_it_is_sampled_from() -> None:
    tokenizer = build_tokenizer(LAYOUTS["qwen3"])
    tokenizer.chat_template = DROPS_THINKING
    talk = [user(USER), assistant("<think>7</think>1"), user(AGAIN), assistant("<think>8</think>2", learn=True)]
    plain = [{"role": message.role, "content": message.content} for message in talk]
    context = tokenizer.apply_chat_template(plain[:-1], add_generation_prompt=True, tokenize=True, return_dict=False)
    assert opening(tokenizer, talk[:-1]) == context
    for learn in ("last", "marked"):
        tokens, mask = encode_conversation(tokenizer, talk, learn=learn)
        assert tokens[: len(context)] == context and mask == [False] * len(context) + [True] * (
            len(mask) - len(context)
        )
        assert tokenizer.decode(tokens[len(context) :]) == "<think>8</think>2<|im_end|>"


@pytest.mark.parametrize("name", NAMES)
def test_text_that_could_pass_for_another_turn_is_refused(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    mark = tokenizer.convert_ids_to_tokens(find_turn_ends(tokenizer).trained)
    with pytest.raises(InputError, match=r"messages\[0\] \(user\) contains '.*could pass for another turn"):
        opening(tokenizer, [user(f"1{mark}2")])


def test_one_line_says_what_is_wrong_with_messages() -> None:
    tokenizer = TOKENIZERS["tiny"]
    with pytest.raises(InputError, match="none of the user"):
        opening(tokenizer, [])
    with pytest.raises(InputError, match=r"messages\[0\] is of the assistant, where one of the user belongs"):
        opening(tokenizer, [OPEN])
    with pytest.raises(InputError, match=r"messages\[1\] is of the user, where one of the assistant belongs"):
        opening(tokenizer, [user("1"), user("2")])
    with pytest.raises(InputError, match="end with the assistant"):
        opening(tokenizer, [user("1"), assistant("2")])
    with pytest.raises(InputError, match="nothing follows turn 0"):
        following(tokenizer, [user("1")], 0)
    with pytest.raises(InputError, match="every message has its content"):
        encode_conversation(tokenizer, [user("1"), OPEN])
    with pytest.raises(InputError, match="surrogate"):
        opening(tokenizer, [user("a\ud800")])
    gemma = TOKENIZERS["gemma3"]
    with pytest.raises(InputError, match="cannot render messages of system, user"):
        opening(gemma, [Message(role="system", content="1"), user("2")])


def test_a_tokenizer_without_template_has_no_turns() -> None:
    tokenizer = build_tokenizer(LAYOUTS["qwen2.5-base"])
    tokenizer.chat_template = None
    with pytest.raises(InputError, match="no chat template"):
        opening(tokenizer, [user("1")])


def test_role_marks_cost_one_token_a_turn_and_the_default_stays() -> None:
    roles, plain = TOKENIZERS["tiny-roles"], TOKENIZERS["tiny"]
    assert roles.convert_ids_to_tokens(opening(roles, [user("7")])) == ["<|user|>", "7", "<|assistant|>"]
    assert len(roles) == len(plain) + 3
    assert plain.get_vocab() == train_tokenizer([], SUMS, TokenizerConfig()).get_vocab()
