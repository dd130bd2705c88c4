"""Source continuations: texts cut at allowed places, reproducibly, with a verifier that accepts the true text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.item import Item
from components.tasks.rows import write_rows
from components.tasks.source import SourceRequest, SourceRow
from components.tasks.sources.continuations import ContinuationsConfig, cut
from components.tasks.verify import Outcome, verify


def opened(folder: Path, seed: int = 0, *, connected: bool = True, **config: object) -> list[SourceRow]:
    request = SourceRequest(seed=seed, limit=99, scratch=folder, datasets=(folder,) if connected else ())
    rows = OperatorSpec.model_validate({"name": "continuations", **config}).resolve("source")(request).rows
    return [row for row in rows if isinstance(row, SourceRow)]


def corpus(folder: Path, texts: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    write_rows(folder, [{"id": f"t{i}", "domain": "text", "text": text} for i, text in enumerate(texts)])
    return folder


def test_by_hand() -> None:
    rng = random.Random(0)
    assert cut("4 + 3 =\n7", ContinuationsConfig(at=r"=\n"), rng) == ("4 + 3 =\n", "7")
    assert cut("4 + 3 =\n7", ContinuationsConfig(at=r"\n", keep_separator=False), rng) == ("4 + 3 =", "7")
    assert cut("ab cdefg", ContinuationsConfig(max_chars=3), rng) == ("ab ", "cde")
    assert cut("abc", ContinuationsConfig(), rng) is None and cut(" abc ", ContinuationsConfig(), rng) is None


@given(st.text(alphabet="ab \n", max_size=20), st.integers(0, 5))
def test_both_parts_are_the_text_and_neither_is_blank(text: str, seed: int) -> None:
    if pair := cut(text, ContinuationsConfig(), random.Random(seed)):
        assert "".join(pair) == text and all(part.strip() for part in pair) and pair[0][-1] in " \n"


def test_the_true_text_is_right_and_another_is_not(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "corpus", ["one two three", "one", "4 + 3 =\n7"])
    rows = opened(folder)
    assert len(rows) == 2 and rows == opened(folder)
    for row in rows:
        item = Item(
            id="i", domain=row.domain or "", prompt=row.prompt, answer=row.answer, verifier=row.verifier, data=row.data
        )
        assert item.data["next"] == item.answer and item.domain == "text"
        assert verify(item, item.answer).outcome is Outcome.RIGHT
        assert verify(item, item.answer + "1").outcome is Outcome.WRONG
    places = {opened(folder, seed)[0].prompt for seed in range(20)}
    assert places == {"one ", "one two "}


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no corpus is connected"):
        opened(tmp_path, connected=False)
    write_rows(tmp_path, [{"id": "a", "domain": "d", "prompt": "p"}])
    with pytest.raises(InputError, match="dataset of kind corpus"):
        opened(tmp_path)
    with pytest.raises(ValidationError, match="not a regular expression"):
        ContinuationsConfig(at="[")
