"""The tokens that end a model's turn, in one place for sampling, training, decoding and saving.

A model folder defines them in up to four files, which differ. Qwen2.5's base models name `<|endoftext|>` in tokenizer,
config and generation_config, and end turns with `<|im_end|>` in their chat template; Llama 3 lists three ends in config
and generation_config; Gemma's `<end_of_turn>` is no eos_token. A response ends at any of them; training writes one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from components.contract.chat_template import ERRORS, render
from components.contract.errors import InputError, did_you_mean
from components.contract.prompt_layout import PROBE, QUESTION, drops_system, ignored_header
from components.modeling.text.tokenizer import ANSWER, THINK, TINY_CHAT_TEMPLATE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TEXT_MARKS = frozenset({THINK, "</think>", ANSWER, "</answer>"})
"""Marks that verifiers and metrics read: text, although some tokenizers hold them as special tokens."""
TODAY = "26 Jul 2024"
"""The date for Llama 3's templates, which otherwise write the current one: prompts must not depend on the day."""


@dataclass(frozen=True)
class TurnEnds:
    """How a model's responses end, and which of its tokens are not text."""

    ids: tuple[int, ...]
    """Tokens that end a response, each once; training writes the first. Empty if the model defines none."""
    padding: frozenset[int] = frozenset()
    """Padding tokens."""
    control: Mapping[int, str] = field(default_factory=dict)
    """Special tokens with their texts: left out of a response's text unless its item or the recipe names them."""

    @property
    def trained(self) -> int:
        """Return the end that training writes; raise InputError if there is none."""
        if not self.ids:
            raise InputError(
                "the tokenizer has no eos_token, and neither chat template, config.json nor generation_config.json "
                "names an end: no response could ever end; set eos_token in tokenizer_config.json"
            )
        return self.ids[0]

    def keeping(self, names: Sequence[str], tokenizer: PreTrainedTokenizerBase | None) -> TurnEnds:
        """Return ends whose special tokens `names` are text, such as the "[THINK]" that a reasoning model writes.

        Names of ordinary tokens change nothing. Raises InputError for a text that is no token, and for a turn end.
        """
        known = {} if tokenizer is None else tokenizer.get_vocab()
        for name in names:
            if name not in known:
                raise InputError(
                    f"keep_special_tokens names {name!r}, which is no token of the model's tokenizer"
                    f"{did_you_mean(name, self.control.values())}"
                )
            if known[name] in self.ids:
                raise InputError(f"keep_special_tokens names {name!r}, which ends the model's responses: leave it out")
        kept = {known[name] for name in names}
        return replace(self, control={token: text for token, text in self.control.items() if token not in kept})

    def named_in(self, text: str) -> frozenset[int]:
        """Return the control tokens named in a text, such as a prompt that asks for an answer between two of them."""
        plain = text.replace("\\", "")  # patterns escape
        return frozenset(token for token, mark in self.control.items() if mark in plain)


class TemplateEnd(NamedTuple):
    """What a chat template writes after a response."""

    token: int | None
    """The mark that ends the turn; None if the template writes none."""
    tail: str
    """All text after the response, such as "<|im_end|>\\n"."""
    header: str = ""
    """Text before the response that the template leaves out of the generation prompt, which it ignores."""
    drops_system: bool = False
    """Whether it leaves system messages out."""


def find_turn_ends(
    tokenizer: PreTrainedTokenizerBase | None,
    config: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
) -> TurnEnds:
    """Return the ends that tokenizer, config.json and generation_config.json name.

    Training writes the chat template's; else the tokenizer's eos, else the first of the model's. A template that cannot
    be used adds none: `template_end` raises the reason as soon as something is to be rendered.
    """
    found: list[int | None] = []
    if tokenizer is not None:
        try:
            found.append(template_end(tokenizer).token)
        except InputError:
            found.append(None)
        found.append(tokenizer.eos_token_id)
    found += [*_listed(config), *_listed((config or {}).get("text_config")), *_listed(generation)]
    ids = tuple(dict.fromkeys(token for token in found if token is not None))
    if tokenizer is None:
        return TurnEnds(ids)
    # The unknown token and the marks of answers count as text.
    special = {token: text for token, text in _added(tokenizer, special=True) if text not in TEXT_MARKS}
    others = (*ids, tokenizer.pad_token_id, tokenizer.unk_token_id)
    control = {token: text for token, text in special.items() if token not in others}
    return TurnEnds(ids, frozenset({tokenizer.pad_token_id} - {None}), control)


def check_vocabulary(ends: TurnEnds, tokenizer: PreTrainedTokenizerBase | None, vocab_size: int) -> None:
    """Raise InputError when the end that training writes is outside the model's vocabulary."""
    if tokenizer is not None and ends.ids and ends.ids[0] >= vocab_size:
        raise InputError(
            f"turns end with token {ends.ids[0]}, but the model has {vocab_size} tokens: its tokenizer is of another "
            "model, or a mark was added without resizing the embeddings"
        )


_templates: WeakKeyDictionary[PreTrainedTokenizerBase, tuple[Any, TemplateEnd | str]] = WeakKeyDictionary()


def template_end(tokenizer: PreTrainedTokenizerBase) -> TemplateEnd:
    """Return how the tokenizer's chat template ends a response; each template is tried once.

    Raises InputError for a template that cannot be rendered, leaves the response out, or ends a turn with text that is
    not a token.
    """
    template = tokenizer.chat_template
    known = _templates.get(tokenizer)
    if known is None or known[0] != template:
        try:
            known = (template, _try_template(tokenizer))
        except InputError as error:  # kept too: a template may take seconds to fail
            known = (template, str(error))
        _templates[tokenizer] = known
    if isinstance(known[1], str):
        raise InputError(known[1])
    return known[1]


def render_chat(tokenizer: PreTrainedTokenizerBase, prompt: str, response: str | None = None) -> str:
    """Return the text of a prompt as the model is sampled from it, or with the response that follows.

    Raises InputError for a template that cannot render it.
    """
    messages = [{"role": "user", "content": prompt}]
    if response is not None:
        messages.append({"role": "assistant", "content": response})
    return render_messages(tokenizer, messages, generation=response is None)


def render_messages(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Mapping[str, Any]],
    *,
    generation: bool,
    tools: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the text of messages, with the generation prompt if wanted; raise InputError if the template cannot.

    `tools` are the functions that the conversation offers, as transformers passes them to templates.
    """
    text = _rendered(tokenizer, messages, generation=generation, tools=tools)
    end = template_end(tokenizer)
    if end.drops_system and messages[0]["role"] == "system":
        raise InputError(
            "the chat template leaves system messages out, so that different contexts become one; use a template that "
            "renders them, or write their text into the user's message"
        )
    return text + end.header if generation else text


def _rendered(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Mapping[str, Any]],
    *,
    generation: bool,
    tools: Sequence[Mapping[str, Any]] = (),
) -> str:
    plain, offered = [dict(message) for message in messages], [dict(tool) for tool in tools] or None
    try:
        template = tokenizer.get_chat_template(tools=offered)
        return render(template, plain, generation=generation, tools=offered, **_variables(tokenizer))
    except ERRORS as error:
        turns = {1: "a user turn", 2: "a user and an assistant turn"}.get(len(messages))
        if turns is None or messages[0]["role"] != "user":
            turns = f"messages of {', '.join(str(message['role']) for message in messages)}"
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"the chat template cannot render {turns} ({type(error).__name__}: {reason}); mend chat_template in the "
            "model's tokenizer"
        ) from error


def _variables(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    return {**tokenizer.special_tokens_map, "date_string": TODAY}


def _try_template(tokenizer: PreTrainedTokenizerBase) -> TemplateEnd:
    if not tokenizer.chat_template:
        return TemplateEnd(None, "")
    if tokenizer.chat_template == TINY_CHAT_TEMPLATE:
        return TemplateEnd(tokenizer.eos_token_id, str(tokenizer.eos_token))
    answered = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": PROBE}]
    rendered = _rendered(tokenizer, answered, generation=False)
    _, response, tail = rendered.rpartition(PROBE)
    if not response:
        raise InputError(
            f"the chat template leaves the assistant's message out: {rendered!r}; use one that renders assistant turns"
        )
    marks = {token for token, text in _added(tokenizer) if text.strip()}
    token = next((token for token in tokenizer.encode(tail, add_special_tokens=False) if token in marks), None)
    if token is None and tail.strip():
        token = tokenizer.get_vocab().get(tail.strip())
        if token is None:
            raise InputError(
                f"the chat template ends a turn with {tail.strip()!r}, which is no token of the tokenizer, so that no "
                "response could stop there; add it as a special token, or use a template whose mark the tokenizer has"
            )
    template, variables = tokenizer.get_chat_template(), _variables(tokenizer)
    return TemplateEnd(token, tail, _header(template, variables), drops_system(template, variables))


def _header(template: str, variables: Mapping[str, Any]) -> str:
    try:
        return ignored_header(template, variables)
    except ERRORS:  # said when a prompt is rendered
        return ""


def _added(tokenizer: PreTrainedTokenizerBase, *, special: bool = False) -> Iterator[tuple[int, str]]:
    """Yield ids and texts of the tokens that were added to the vocabulary: all, or those held as special."""
    for token, added in tokenizer.added_tokens_decoder.items():
        if added.special or not special:
            yield token, added.content
    yield from zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True)


def _listed(config: Mapping[str, Any] | None) -> list[int]:
    """Return the ids that `eos_token_id` of a config lists: none, one or many."""
    ends = (config or {}).get("eos_token_id")
    listed = list(ends) if isinstance(ends, list | tuple) else [] if ends is None else [ends]
    if not all(isinstance(end, int) for end in listed):
        raise InputError(f"eos_token_id of the model's config or generation_config is {ends!r}; give token ids")
    return [end for end in listed if end >= 0]  # some configs say -1 for none
