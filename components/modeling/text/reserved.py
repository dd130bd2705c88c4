"""A token that no text holds: a place in the vocabulary where a policy can store a judgement of what it wrote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.modeling.text.turn_ends import TurnEnds

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def reserved_token(tokenizer: PreTrainedTokenizerFast, ends: TurnEnds, name: str | None = None) -> int:
    """Return the id of a special token by its name; without one, the first that texts and chat template do without.

    Padding, the tokens that begin and end texts and those of the chat template are never chosen. Raises InputError for
    a name that the tokenizer lacks or that ends responses, and where no special token is left.
    """
    special = {index: added.content for index, added in sorted(tokenizer.added_tokens_decoder.items()) if added.special}
    if name is not None:
        named = next((index for index, content in special.items() if content == name), None)
        if named is None:
            raise InputError(f"the tokenizer has no special token {name!r} (it has {_some(special.values())})")
        if named in ends.ids:
            raise InputError(f"token {name!r} ends responses; name one that they do not hold, or none")
        return named
    template = str(tokenizer.chat_template or "")
    used = {*ends.ids, tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id}
    free = [index for index, content in special.items() if index not in used and content not in template]
    if not free:
        raise InputError(
            "every special token of the tokenizer is used in texts; name one of them as the reserved token"
        )
    return free[0]


def _some(names: Iterable[str]) -> str:
    found = [repr(name) for name in names]
    return ", ".join(found[:8]) + (" ..." if len(found) > 8 else "") or "none"
