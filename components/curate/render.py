"""Renders kept drafts as the rows of the artifact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from components.contract.errors import InputError
from components.contract.messages import filled, num_turns, written
from components.contract.operators import Bound, OperatorSpec
from components.curate.params import CurateParams, DemonstratorShare, SourceShare
from components.curation.candidate import Candidate
from components.curation.output import unique_id
from components.tasks.item import Item
from components.tasks.seeds import derive_rng

GIVEN = "given"


class Writer:
    """Writes responses by the mixtures of the recipe."""

    def __init__(self, params: CurateParams, seed: int) -> None:
        self._seed, self._separator = seed, params.separator
        gold = OperatorSpec.model_validate({"name": "gold", "markup": params.kind != "corpus"})
        self._mixtures = [_Mixture(share, DemonstratorShare(demonstrator=gold)) for share in params.sources]

    def demonstration(self, draft: Candidate, position: int) -> dict[str, Any]:
        """Return the row of a draft as a prompt with a response; `quality` names the demonstrator."""
        item, turns, label = self._respond(draft, position)
        return {**item.row(), **draft.extras, **written(turns), "quality": label}

    def is_written(self, draft: Candidate) -> bool:
        """Return whether a draft's text is known: no demonstrator writes it, so that its position does not matter."""
        given = draft.response is not None and not self._mixtures[draft.source].explicit
        return draft.text is not None or given

    def text(self, draft: Candidate, position: int) -> dict[str, Any]:
        """Return the row of a draft as plain text: its own, or prompt, separator and response."""
        if draft.text is not None:
            return {"domain": draft.domain, "text": draft.text}
        item, turns, _ = self._respond(draft, position)
        messages = filled(item.messages, turns) if item.messages else ()
        texts = [message.content or "" for message in messages] or [item.prompt, *turns]
        return {"domain": draft.domain, "text": self._separator.join(texts)}

    def _respond(self, draft: Candidate, position: int) -> tuple[Item, tuple[str, ...], str]:
        """Return the item, the turns that answer it, and who wrote them."""
        if draft.item is None:
            raise InputError(f"row {draft.id}: plain text has no prompt; it can only become a corpus")
        mixture = self._mixtures[draft.source]
        if draft.response is not None and not mixture.explicit:
            turns = (*draft.turns, draft.response)
            return draft.item, self._checked(draft.item, turns, "its row"), str(draft.extras.get("quality", GIVEN))
        rng = derive_rng(self._seed, "demonstration", position, draft.id)
        demonstrator, label = mixture.choose(rng.random())
        text: str | tuple[str, ...] = demonstrator(draft.item, rng)
        turns = (text,) if isinstance(text, str) else text
        return draft.item, self._checked(draft.item, turns, f"demonstrator {label}"), label

    def _checked(self, item: Item, turns: tuple[str, ...], writer: str) -> tuple[str, ...]:
        """Return the turns; raise InputError if their number is not the item's number of open turns."""
        wanted = num_turns(item.messages) if item.messages else 1
        if len(turns) != wanted:
            raise InputError(
                f"item {item.id}: {writer} gives {len(turns)} turns, and the policy has {wanted} to write; name "
                "`demonstrators` that write all turns"
            )
        return turns


class _Mixture:
    def __init__(self, share: SourceShare, default: DemonstratorShare) -> None:
        self.explicit = bool(share.demonstrators)
        self._choices: list[tuple[float, Bound, str]] = []
        shares = share.demonstrators or (default,)
        total = sum(choice.weight for choice in shares)
        reached = 0.0
        for choice in shares:
            reached += choice.weight
            bound = choice.demonstrator.resolve()
            self._choices.append((reached / total, bound, choice.label or choice.demonstrator.name))

    def choose(self, uniform: float) -> tuple[Bound, str]:
        """Return demonstrator and label for a number in [0, 1)."""
        chosen = next((choice for choice in self._choices if uniform < choice[0]), self._choices[-1])
        return chosen[1:]


def render_rows(drafts: Sequence[Candidate], params: CurateParams, seed: int) -> Iterator[dict[str, Any]]:
    """Yield one row per draft in the layout of the dataset's kind, each with a unique id."""
    writer = Writer(params, seed)
    ids: set[str] = set()
    for position, draft in enumerate(drafts):
        if params.kind == "corpus":
            row = writer.text(draft, position)
        elif params.kind == "demonstrations":
            row = writer.demonstration(draft, position)
        elif draft.item is None:
            raise InputError(f"row {draft.id}: plain text has no prompt; use kind: corpus")
        else:
            row = {**draft.item.row(), **draft.extras}
        yield {**row, "id": unique_id(draft.id, ids)}
