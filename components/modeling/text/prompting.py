"""From prompts and responses to token ids and back, by the tokenizer's chat template if it has one.

A model is trained on exactly the layout that it is sampled from: an example's tokens begin
with `encode_prompt` of its prompt, and the loss covers the response and the one token that ends it.

`ends` are the model's (`Policy.ends`), by default those that the tokenizer alone defines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from components.contract.errors import InputError
from components.modeling.text.tokenizer import TINY_CHAT_TEMPLATE
from components.modeling.text.turn_ends import PROBE, TurnEnds, find_turn_ends, render_chat, template_end


class Encoded(NamedTuple):
    """Token ids of one example, and which of them are targets of the loss."""

    tokens: list[int]
    loss_mask: list[bool]


def encode_prompt(tokenizer: PreTrainedTokenizerBase, prompt: str) -> list[int]:
    """Return the token ids that a model continues with its response."""
    return encode_prompts(tokenizer, [prompt])[0]


def encode_prompts(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str], ends: TurnEnds | None = None
) -> list[list[int]]:
    """Return `encode_prompt` of many prompts, much faster by a single call of the tokenizer.

    Raises InputError for a chat template that cannot be used, and when no token could end a response.
    """
    if not prompts:
        return []
    _check(tokenizer, ends)
    return _tokenize_openings(tokenizer, [_render_prompt(tokenizer, prompt) for prompt in prompts])


def encode_example(
    tokenizer: PreTrainedTokenizerBase, prompt: str, response: str, ends: TurnEnds | None = None
) -> Encoded:
    """Return tokens and loss mask of a prompt with its response; the response and its end are targets.

    The end is one token, the chat template's or else eos: what a template writes after it (a newline, an eos) is never
    sampled. Raises InputError when the chat template renders the prompt differently once a response follows: the model
    would be trained on another context than it is sampled from.
    """
    return encode_examples(tokenizer, [(prompt, response)], ends)[0]


def encode_examples(
    tokenizer: PreTrainedTokenizerBase, examples: Sequence[tuple[str, str]], ends: TurnEnds | None = None
) -> list[Encoded]:
    """Return `encode_example` of many (prompt, response) pairs."""
    if not examples:
        return []
    ends = _check(tokenizer, ends)
    rendered = [_render_example(tokenizer, prompt, response) for prompt, response in examples]
    prompts = _tokenize_openings(tokenizer, [start for start, _ in rendered])
    wholes = _tokenize_openings(tokenizer, [start + rest for start, rest in rendered])
    return [
        _mask_response(tokenizer, ends, prompt, whole, rest)
        for prompt, whole, (_, rest) in zip(prompts, wholes, rendered, strict=True)
    ]


def encode_text(tokenizer: PreTrainedTokenizerBase, text: str) -> Encoded:
    """Return tokens of plain text, begun as the tokenizer begins one and followed by eos.

    All but the first are targets of the loss.
    """
    return encode_texts(tokenizer, [text])[0]


def encode_texts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[Encoded]:
    """Return `encode_text` of many texts."""
    if not texts:
        return []
    if tokenizer.eos_token_id is None:
        raise InputError("the tokenizer has no eos_token: no text could ever end; set one in tokenizer_config.json")
    encoded = [[*tokens, tokenizer.eos_token_id] for tokens in tokenize_texts(tokenizer, texts)]
    return [Encoded(tokens, [True] * len(tokens)) for tokens in encoded]


def decode_response(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[int], ends: TurnEnds | None = None) -> str:
    """Return a response's text up to its end, without padding and control tokens; marks such as <answer> stay."""
    return decode_responses(tokenizer, [tokens], ends)[0]


def decode_responses(
    tokenizer: PreTrainedTokenizerBase,
    responses: Sequence[Sequence[int]],
    ends: TurnEnds | None = None,
    *,
    wordings: Sequence[str] = (),
) -> list[str]:
    """Return `decode_response` of many responses, much faster by a single call of the tokenizer.

    `wordings` are the texts of the items, one for each response; control tokens that occur in them are kept.
    """
    ends = find_turn_ends(tokenizer) if ends is None else ends
    stops, hidden = frozenset(ends.ids), ends.padding | ends.control.keys()
    distinct = dict.fromkeys(wordings)
    shown = {text: ends.named_in(text) for text in distinct} if ends.named_in("\n".join(distinct)) else {}
    kept = [shown.get(text, frozenset()) for text in wordings] or [frozenset()] * len(responses)
    rows = [
        _text_tokens(response, stops, hidden - named if named else hidden)
        for response, named in zip(responses, kept, strict=True)
    ]
    # Late in a run many responses are equal.
    unique = list(dict.fromkeys(rows))
    texts = dict(zip(unique, _decode(tokenizer, unique), strict=True))
    return [texts[row] for row in rows]


def _decode(tokenizer: PreTrainedTokenizerBase, rows: Sequence[Sequence[int]]) -> list[str]:
    # Subclasses may override decoding.
    if isinstance(tokenizer, PreTrainedTokenizerFast) and type(tokenizer)._decode is PreTrainedTokenizerFast._decode:
        return tokenizer.backend_tokenizer.decode_batch(list(map(list, rows)), skip_special_tokens=False)
    return [tokenizer.decode(list(row), skip_special_tokens=False, clean_up_tokenization_spaces=False) for row in rows]


def _text_tokens(response: Sequence[int], stops: frozenset[int], hidden: frozenset[int]) -> tuple[int, ...]:
    """Return the tokens before the first end, without hidden ones."""
    tokens = tuple(response)
    if not stops.isdisjoint(tokens):
        tokens = tokens[: next(at for at, token in enumerate(tokens) if token in stops)]
    return tokens if hidden.isdisjoint(tokens) else tuple(token for token in tokens if token not in hidden)


def _check(tokenizer: PreTrainedTokenizerBase, ends: TurnEnds | None) -> TurnEnds:
    """Return the ends; raise InputError for a template that cannot be used, or when there is no end."""
    template_end(tokenizer)
    ends = find_turn_ends(tokenizer) if ends is None else ends
    _ = ends.trained
    return ends


def tokenize(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of rendered texts, nothing added."""
    return tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False)["input_ids"]


def tokenize_texts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of plain texts, each begun as the tokenizer begins one: with BOS for Llama's and Gemma's.

    A text that begins so itself gets no second BOS. Tokens that the tokenizer appends (eos, a separator) are left out.
    """
    start = text_start(tokenizer)
    encoded = tokenize(tokenizer, texts)
    return [tokens if tokens[: len(start)] == start else [*start, *tokens] for tokens in encoded] if start else encoded


def text_start(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the special tokens that the tokenizer puts before a text; usually BOS or none."""
    (plain,) = tokenize(tokenizer, [PROBE])
    whole: list[int] = tokenizer([PROBE], return_attention_mask=False)["input_ids"][0]
    if not plain or whole == plain:
        return []
    places = range(len(whole) - len(plain) + 1)
    return whole[: next((at for at in places if whole[at : at + len(plain)] == plain), 0)]


def _tokenize_openings(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of rendered prompts: a chat template writes BOS itself if the model wants it."""
    return tokenize(tokenizer, texts) if tokenizer.chat_template else tokenize_texts(tokenizer, texts)


def _render_prompt(tokenizer: PreTrainedTokenizerBase, prompt: str) -> str:
    if not tokenizer.chat_template:
        return prompt
    if tokenizer.chat_template == TINY_CHAT_TEMPLATE:
        return f"{prompt}\n"
    return render_chat(tokenizer, prompt)


def _render_example(tokenizer: PreTrainedTokenizerBase, prompt: str, response: str) -> tuple[str, str]:
    """Return the text of the prompt, and what follows it."""
    if not tokenizer.chat_template:
        return prompt, response
    if tokenizer.chat_template == TINY_CHAT_TEMPLATE:  # what it renders, without the cost of the template engine
        return f"{prompt}\n", f"{response}{tokenizer.eos_token}"
    start, whole = render_chat(tokenizer, prompt), render_chat(tokenizer, prompt, response)
    if not whole.startswith(start):
        raise InputError(
            f"the chat template is not prefix stable: for the prompt {prompt!r} sampling starts from {start!r}, but "
            f"with a response the text is {whole!r}; use a template whose turns do not change when turns follow "
            "(one that adds or strips <think> blocks in the generation prompt is the usual cause)"
        )
    end, rest = template_end(tokenizer), whole[len(start) :]
    return start, rest if end.token is not None else rest.removesuffix(end.tail)


def _mask_response(
    tokenizer: PreTrainedTokenizerBase, ends: TurnEnds, prompt: list[int], whole: list[int], rest: str
) -> Encoded:
    response = split_example(tokenizer, ends, prompt, whole, rest)
    return Encoded([*prompt, *response], [False] * len(prompt) + [True] * len(response))


def split_example(
    tokenizer: PreTrainedTokenizerBase, ends: TurnEnds, prompt: list[int], whole: list[int], rest: str
) -> list[int]:
    """Return the response's tokens of `whole`, the tokens of a prompt followed by the response `rest`.

    They stop at the response's first end, which is added if absent. Raises InputError when the response cannot be
    separated from its prompt.
    """
    response = whole[len(prompt) :]
    if whole[: len(prompt)] != prompt:  # a token spans prompt and response, which sampling could never produce
        (response,) = tokenize(tokenizer, [rest])
        if tokenizer.decode(prompt + response) != tokenizer.decode(whole):
            raise InputError(f"the tokenizer cannot encode the response {rest!r} apart from its prompt")
    last = next((at for at, token in enumerate(response) if token in ends.ids), None)
    return [*response, ends.trained] if last is None else response[: last + 1]
