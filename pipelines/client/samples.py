"""What a run's models wrote, to read in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from components.contract.errors import InputError
from components.contract.samples import Sample, shortened
from pipelines.client.pages import page
from pipelines.client.tables import frame
from pipelines.runs.samples import Found, StageSamples, Wish, find_samples, one_line, reward_text

if TYPE_CHECKING:
    import pandas as pd

    from components.runtime.ledger.ledger import RunRecord
    from components.runtime.store import Store

OUTCOMES = ("right", "wrong", "failed")
SORTS = ("reward", "best", "length", "step")
SHOWN_HEAD, SHOWN_TAIL = 1200, 400
"""Characters shown of a longer text; `to_pandas` and the samples themselves have all of it."""
COLUMNS = ("stage", "step", "domain", "outcome", "reward", "prompt", "response", "answer", "detail")


class Samples(Sequence[Sample]):
    """Responses with their verdicts and rewards. A notebook shows them; control characters are spelled out there."""

    def __init__(self, found: Found) -> None:
        self._found = found

    @property
    def num_matching(self) -> int:
        """Return how many there are, of which these are the first."""
        return self._found.num_matching

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per sample, with the texts as the model wrote them."""
        return frame(self._found.to_json()["samples"], COLUMNS)

    def __len__(self) -> int:
        return len(self._found.chosen)

    @overload
    def __getitem__(self, place: int) -> Sample: ...

    @overload
    def __getitem__(self, place: slice) -> list[Sample]: ...

    def __getitem__(self, place: int | slice) -> Sample | list[Sample]:
        """Return one sample, or several."""
        return [sample for _, sample in self._found.chosen][place]

    def __repr__(self) -> str:
        return f"<{len(self)} of {self.num_matching} samples; to_pandas() gives a table>"

    def _repr_html_(self) -> str:
        shown = [_shown(stage, sample) for stage, sample in self._found.chosen]
        return page("samples.html", samples=shown, notes=self._found.notes, num_matching=self.num_matching)


def find(
    store: Store,
    record: RunRecord,
    stage: str | None,
    *,
    step: int | None = None,
    outcome: Literal["right", "wrong", "failed"] | None = None,
    domain: str | None = None,
    search: str = "",
    prompt_id: str | None = None,
    sort: str = "reward",
    limit: int = 10,
) -> Samples:
    """Return the wanted samples of a run; raise InputError for a wish that nothing can meet."""
    for name, value, known in (("outcome", outcome, OUTCOMES), ("sort", sort, SORTS)):
        if value is not None and value not in known:
            raise InputError(f"{name}={value!r}: expected {', '.join(known)}")
    if limit < 1:
        raise InputError(f"limit={limit}: expected a number of samples, 1 or more")
    outcomes = frozenset([outcome] if outcome else [])
    wish = Wish(step, outcomes, domain, search, prompt_id, sort, limit)
    return Samples(find_samples(store, record, stage, wish))


def _shown(stage: StageSamples, sample: Sample) -> dict[str, Any]:
    """Return what the page shows of a sample: facts, and who wrote what."""
    facts = [stage.stage, *([f"step {sample.step}"] if sample.step is not None else []), sample.domain]
    facts += [reward_text(sample)] if sample.reward is not None else []
    facts += ["truncated"] if sample.truncated else []
    texts: list[tuple[str, str]] = [(who, shortened(text, SHOWN_HEAD, SHOWN_TAIL)) for who, text in sample.pieces()]
    texts += [("answer", sample.answer)] if sample.answer is not None else []
    return {
        "facts": [fact for fact in facts if fact],
        "outcome": sample.outcome or "",
        "detail": one_line(sample.detail),
        "texts": [("model" if who == "policy" else who, text) for who, text in texts],
    }
