"""From prompts and responses to token ids, by the tokenizer's chat template where it has one.

The layout that a model is trained on is exactly the one that it is sampled from: an example's tokens begin
with `encode_prompt` of its prompt, and the loss covers the response and the end-of-sequence token that
stops sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from components.contract.errors import InputError
from components.modeling.tokenizer import TINY_CHAT_TEMPLATE


class Encoded(NamedTuple):
    """Token ids of one example, and which of them are targets of the loss."""

    tokens: list[int]
    loss_mask: list[bool]


def encode_prompt(tokenizer: PreTrainedTokenizerBase, prompt: str) -> list[int]:
    """Return the token ids that a model continues with its response."""
    return encode_prompts(tokenizer, [prompt])[0]


def encode_prompts(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str]) -> list[list[int]]:
    """Return `encode_prompt` of many prompts; one call of the tokenizer, so much faster."""
    if not prompts:
        return []
    return _tokenize(tokenizer, [_render_prompt(tokenizer, prompt) for prompt in prompts])


def encode_example(tokenizer: PreTrainedTokenizerBase, prompt: str, response: str) -> Encoded:
    """Return tokens and loss mask of a prompt with its response; only the response and its eos are targets.

    Raises InputError when the chat template renders the prompt differently once a response follows it: what
    the model would be trained on is then not what it will see when it is sampled.
    """
    return encode_examples(tokenizer, [(prompt, response)])[0]


def encode_examples(tokenizer: PreTrainedTokenizerBase, examples: Sequence[tuple[str, str]]) -> list[Encoded]:
    """Return `encode_example` of many (prompt, response) pairs."""
    if not examples:
        return []
    rendered = [_render_example(tokenizer, prompt, response) for prompt, response in examples]
    prompts = _tokenize(tokenizer, [start for start, _ in rendered])
    wholes = _tokenize(tokenizer, [start + rest for start, rest in rendered])
    return [
        _mask_response(tokenizer, prompt, whole, rest)
        for prompt, whole, (_, rest) in zip(prompts, wholes, rendered, strict=True)
    ]


def encode_text(tokenizer: PreTrainedTokenizerBase, text: str) -> Encoded:
    """Return tokens of plain text followed by eos; all but the first are targets of the loss."""
    return encode_texts(tokenizer, [text])[0]


def encode_texts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[Encoded]:
    """Return `encode_text` of many texts."""
    if not texts:
        return []
    eos = _eos(tokenizer)
    encoded = [[*tokens, eos] for tokens in _tokenize(tokenizer, texts)]
    return [Encoded(tokens, [True] * len(tokens)) for tokens in encoded]


def decode_response(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[int]) -> str:
    """Return a response's text up to its eos, without padding; marks such as <answer> stay."""
    dropped = {tokenizer.pad_token_id}
    kept = []
    for token in tokens:
        if token == tokenizer.eos_token_id:
            break
        if token not in dropped:
            kept.append(int(token))
    return tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _eos(tokenizer: PreTrainedTokenizerBase) -> int:
    if tokenizer.eos_token_id is None:
        raise InputError("the tokenizer has no eos_token: no response could ever end; set one in tokenizer_config.json")
    return tokenizer.eos_token_id


def _tokenize(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    return tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False)["input_ids"]


def _render_prompt(tokenizer: PreTrainedTokenizerBase, prompt: str) -> str:
    if not tokenizer.chat_template:
        return prompt
    if tokenizer.chat_template == TINY_CHAT_TEMPLATE:
        return f"{prompt}\n"
    messages = [{"role": "user", "content": prompt}]
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def _render_example(tokenizer: PreTrainedTokenizerBase, prompt: str, response: str) -> tuple[str, str]:
    """Return the text of the prompt, and what follows it."""
    if not tokenizer.chat_template:
        return prompt, response
    if tokenizer.chat_template == TINY_CHAT_TEMPLATE:  # what it renders, without the price of the template engine
        return f"{prompt}\n", f"{response}{tokenizer.eos_token}"
    start = _render_prompt(tokenizer, prompt)
    messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": response}]
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    if not whole.startswith(start):
        raise InputError(
            f"the chat template is not prefix stable: for the prompt {prompt!r} sampling starts from {start!r}, but "
            f"with a response the text is {whole!r}; use a template whose turns do not change when turns follow "
            "(one that adds or strips <think> blocks in the generation prompt is the usual cause)"
        )
    return start, whole[len(start) :]


def _mask_response(tokenizer: PreTrainedTokenizerBase, prompt: list[int], whole: list[int], rest: str) -> Encoded:
    """Split the tokens of a whole example at the end of its prompt; end at the response's eos, added if
    absent."""
    response = whole[len(prompt) :]
    if whole[: len(prompt)] != prompt:  # a token reaches across the border, which sampling could never produce
        (response,) = _tokenize(tokenizer, [rest])
        if tokenizer.decode(prompt + response) != tokenizer.decode(whole):
            raise InputError(f"the tokenizer cannot encode the response {rest!r} apart from its prompt")
    eos = _eos(tokenizer)
    # What a template writes behind the response's eos (a newline, say) is never sampled.
    response = response[: response.index(eos) + 1] if eos in response else [*response, eos]
    return Encoded([*prompt, *response], [False] * len(prompt) + [True] * len(response))
