"""Comparisons: tokenised examples, of which each prompt is held once for all of its responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from components.contract.errors import InputError
from components.contract.messages import Message
from components.modeling.models.policy import Policy
from components.modeling.text.overlong import Limit, Overlong, Teller, sort_overlong
from components.modeling.text.prompting import Encoded, encode_examples
from components.modeling.text.turns import encode_conversations
from components.preference.reading import Candidates
from components.tasks.blocks import Grammar, blocks
from components.tasks.row_kinds.reading import task_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SHOWN_CHARS = 60
Tokens = tuple[int, ...]
Mask = tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One example."""

    prompt: Tokens
    responses: tuple[Tokens, ...]
    """Each with its end."""
    scores: tuple[float, ...]
    """How good each response is, as a rank from 0; the chosen one, or the best, comes first."""
    margin: float = 0.0
    domain: str = ""
    weight: float = 1.0
    masks: tuple[Mask, ...] = ()
    """Of each response the tokens that are compared, where some are context; empty: all are."""
    where: str = field(default="", compare=False)
    """File and line of its row."""
    other: Tokens | None = None
    """A response of another row, for an estimate of the divergence from the reference."""

    @property
    def longest(self) -> int:
        """Return the tokens of the prompt with its longest response."""
        return len(self.prompt) + max(map(len, (*self.responses, self.other or ())))

    @property
    def num_tokens(self) -> int:
        """Return the tokens that a pass computes: the prompt once."""
        return len(self.prompt) + sum(map(len, self.responses))

    @property
    def compared(self) -> tuple[int, ...]:
        """Return how many tokens of each response are compared."""
        return tuple(map(sum, self.masks) if self.masks else map(len, self.responses))

    @property
    def num_targets(self) -> int:
        """Return the tokens of all responses that are compared."""
        return sum(self.compared)

    @property
    def num_preferred(self) -> int:
        """Return the compared tokens of the preferred response; 0 for a single one that is not desirable."""
        return self.compared[0] if self.is_preferred else 0

    @property
    def is_preferred(self) -> bool:
        """Return whether the first response is one to learn from."""
        return len(self.responses) > 1 or self.scores[0] > 0


class Fitting(NamedTuple):
    """Comparisons within a limit."""

    kept: list[Comparison]
    num_overlong: int
    num_cut: int


def encoded(policy: Policy, examples: Sequence[Candidates], context_tags: Sequence[str] = ()) -> list[Comparison]:
    """Return the comparisons of examples, in order; a prompt and its responses are laid out as in SFT.

    Blocks of `context_tags` in a response are not compared.

    Raises InputError for a model without a tokenizer, and as `encode_examples` and `encode_conversations` do.
    """
    tokenizer = policy.tokenizer
    if tokenizer is None:
        raise InputError("the model has no tokenizer; put its tokenizer.json beside its weights")
    flat = [(example.task, text) for example in examples for text in _texts(example)]
    plain = [at for at, (task, _) in enumerate(flat) if isinstance(task, str)]
    talks = [at for at, (task, _) in enumerate(flat) if not isinstance(task, str)]
    found: dict[int, Encoded] = {}
    texts = [(str(flat[at][0]), flat[at][1]) for at in plain]
    found.update(zip(plain, encode_examples(tokenizer, texts, policy.ends), strict=True))
    conversations = {
        f"response {at + 1}": (*flat[at][0], Message(role="assistant", content=flat[at][1])) for at in talks
    }
    told = encode_conversations(tokenizer, conversations, policy.ends, learn="last")
    found.update(zip(talks, told, strict=True))
    split = [_split(found[at]) for at in range(len(flat))]
    made, at = [], 0
    for example in examples:
        count = len(_texts(example))
        masks = [_mask(tokenizer, tokens, context_tags) for _, tokens in split[at : at + count]] if context_tags else ()
        made.append(_comparison(example, split[at : at + count], masks))
        at += count
    return made


def fitting(comparisons: Sequence[Comparison], limit: Limit, overlong: Overlong, teller: Teller) -> Fitting:
    """Return those whose prompt and longest response are within a limit, and the counts of the others.

    One that is cut loses the beginning of its prompt, never of a response. Errors as in `sort_overlong`.
    """
    room = [limit.tokens - (one.longest - len(one.prompt)) for one in comparisons]
    sort = sort_overlong(
        [one.longest for one in comparisons],
        limit,
        overlong,
        teller,
        names=lambda index: comparisons[index].where or f"example {index + 1}",
        what="examples",
        cuttable=lambda index: room[index] > 0,
    )
    kept = [
        replace(comparisons[index], prompt=comparisons[index].prompt[-room[index] :])
        if index in sort.cut
        else comparisons[index]
        for index in sort.kept
    ]
    return Fitting(kept, len(sort.dropped), len(sort.cut))


def without_equal(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return those whose responses differ as tokens: equal ones prefer nothing, whatever their texts were."""
    return [one for one in comparisons if len(one.responses) == 1 or len(set(one.responses)) > 1]


def with_others(comparisons: Sequence[Comparison], max_tokens: int) -> list[Comparison]:
    """Return comparisons that each hold the response of the nearest row before with another prompt, in a circle.

    What of it exceeds `max_tokens` behind the prompt is cut off, as TRL cuts it. The order of the rows alone decides
    it, so that what a reference says of them is computed once. Raises InputError where all prompts are equal.
    """
    if len({one.prompt for one in comparisons}) < 2:
        raise InputError("the divergence is estimated from responses to other prompts, and all rows ask the same")
    before = comparisons[-1]
    other = next(one for one in reversed(comparisons) if one.prompt != comparisons[0].prompt)
    found = []
    for one in comparisons:
        if before.prompt != one.prompt:
            other = before
        found.append(replace(one, other=other.responses[0][: max_tokens - len(one.prompt)]))
        before = one
    return found


def _texts(example: Candidates) -> list[str]:
    """Return the whole responses of an example and, last, what all of them say first, if anything."""
    return [
        *(example.prefix + response for response in example.responses),
        *([example.prefix] if example.prefix else []),
    ]


def _split(found: Encoded) -> tuple[Tokens, Tokens]:
    """Return what comes before the first target, and the rest."""
    start = found.loss_mask.index(True)
    return tuple(found.tokens[:start]), tuple(found.tokens[start:])


def _mask(tokenizer: PreTrainedTokenizerBase, tokens: Tokens, tags: Sequence[str]) -> Mask:
    """Return which tokens of a response hold no character of a block of any of the tags."""
    pieces = [str(tokenizer.decode([token])) for token in tokens]
    context = [False] * len(tokens)
    for block in blocks("".join(pieces), Grammar(tags=tuple(tags)), pieces):
        assert block.tokens is not None, "pieces were given"
        start, stop = block.tokens
        context[start:stop] = [True] * (stop - start)
    return tuple(not one for one in context)


def _comparison(example: Candidates, parts: Sequence[tuple[Tokens, Tokens]], masks: Sequence[Mask]) -> Comparison:
    prompt = parts[0][0]
    if not prompt:
        raise InputError("a prompt is empty once it is tokenised; give it at least a beginning-of-text token")
    shown = task_text(example.task)[:SHOWN_CHARS]
    if any(start != prompt for start, _ in parts):
        raise InputError(f"the template lays the prompt {shown!r} out otherwise before one response than another")
    count = len(example.responses)
    responses = [response if example.ended else response[:-1] for _, response in parts[:count]]
    context = _context(responses, len(parts[-1][1]) - 1) if example.prefix else ()
    rest = tuple(response[len(context) :] for response in responses)
    if not all(rest):
        raise InputError(f"a step of the pair that answers {shown!r} has no token of its own")
    kept = tuple(mask[len(context) :][: len(own)] for mask, own in zip(masks, rest, strict=False))
    if not all(map(any, kept)):
        raise InputError(f"a response to {shown!r} is context alone, and leaves nothing to compare (context_tags)")
    return Comparison(
        prompt=prompt + context,
        responses=rest,
        masks=kept,
        scores=example.scores,
        margin=example.margin,
        domain=example.domain,
        weight=example.weight,
        where=example.where,
    )


def _context(responses: Sequence[Tokens], most: int) -> Tokens:
    """Return the tokens that all responses begin with, at most as many as what they say first has alone.

    A token that spans the border belongs to the steps: their tokens are those of the whole response.
    """
    same = takewhile(lambda tokens: len(set(tokens)) == 1, zip(*responses, strict=False))
    return tuple(tokens[0] for tokens in islice(same, most))
