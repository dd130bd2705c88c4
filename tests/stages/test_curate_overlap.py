"""Duplicates and leaks, against brute force and by planted cases."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.curation.candidate import Candidate
from components.curation.operators.decontaminate import Contamination, DecontaminateConfig, evaluation_prompts
from components.curation.operators.dedup import ExactDuplicates, NearDuplicates
from components.curation.similarity import band_table
from components.curation.similarity.band_table import BandTable
from components.curation.similarity.members import Members
from components.curation.similarity.minhash import MAX_MISSED, Bands, band_shape
from components.curation.similarity.near_config import NearConfig
from components.curation.similarity.shingles import count_shared, shingles
from components.curation.similarity.tokens import tokens
from components.curation.split import HashSplit
from components.tasks.item import Item
from tests.support.stage_context import write_jsonl

WORDS = [f"w{n}" for n in range(400)]


def prompt(content: str) -> Candidate:
    item = Item(id="x", domain="x", prompt=content, answer="1", verifier="exact")
    return Candidate("x", "x", 0, item=item)


def text(content: str) -> Candidate:
    return Candidate("x", "x", 0, text=content)


def kept(check: Any, contents: list[str]) -> list[str]:
    found = []
    for content in contents:
        draft = text(content)
        if check.reject(draft) is None:
            check.keep(draft)
            found.append(content)
    return found


def documents(seed: int, count: int, length: int) -> list[str]:
    """Return random documents, a third of which are earlier ones with some words changed."""
    rng = random.Random(seed)
    found: list[list[str]] = []
    for number in range(count):
        if number % 3 == 2:
            words = list(rng.choice(found))
            for _ in range(rng.randrange(0, 12)):
                words[rng.randrange(length)] = rng.choice(WORDS)
        else:
            words = rng.choices(WORDS, k=length)
        found.append(words)
    return [" ".join(words) for words in found]


def shingle_set(content: str, config: NearConfig) -> frozenset[tuple[str, ...]]:
    """Return a text's shingles themselves, the reference for their hashes."""
    units = tokens(content) if config.unit == "word" else list(" ".join(tokens(content)))
    count = max(1, len(units) - config.ngram + 1) if units else 0
    return frozenset(tuple(units[start : start + config.ngram]) for start in range(count))


def jaccard(left: frozenset[Any], right: frozenset[Any]) -> float:
    return len(left & right) / len(left | right) if left or right else 1.0


def brute_force(contents: list[str], config: NearConfig) -> list[str]:
    found: list[str] = []
    for content in contents:
        own = shingle_set(content, config)
        others = (shingle_set(other, config) for other in found)
        if all(jaccard(own, other) < config.threshold for other in others):
            found.append(content)
    return found


def test_near_duplicates_are_those_of_brute_force() -> None:
    agreed = total = 0
    for seed in range(5):
        contents = documents(seed, count=120, length=60)
        config = NearConfig(threshold=0.6, ngram=2)
        expected = set(brute_force(contents, config))
        found = set(kept(NearDuplicates(config), contents))
        assert 80 < len(expected) < 120, "the test must hold both kinds"
        total += len(contents)
        agreed += len(contents) - len(expected ^ found)
    assert agreed / total > 0.99


def test_nothing_that_is_unlike_is_dropped() -> None:
    """Candidates of the hash are compared exactly, so a low recall may keep a duplicate and never loses a row."""
    config = NearConfig(threshold=0.7, ngram=1, permutations=16)
    contents = documents(3, count=150, length=40)
    survivors = kept(NearDuplicates(config), contents)
    for content in set(contents) - set(survivors):
        own = shingle_set(content, config)
        assert max(jaccard(own, shingle_set(other, config)) for other in survivors) >= 0.7


@pytest.mark.parametrize("unit", ["word", "character"])
@given(st.text(), st.text(), st.integers(1, 6))
def test_hashes_stand_for_shingles(unit: str, one: str, two: str, ngram: int) -> None:
    config = NearConfig(unit=unit, ngram=ngram)
    left, right = (shingles(content, ngram=ngram, unit=unit) for content in (one, two))
    sets = shingle_set(one, config), shingle_set(two, config)
    assert (len(left), len(right)) == tuple(map(len, sets))
    assert count_shared(left, right) == len(sets[0] & sets[1])
    assert (np.diff(left) > 0).all()


def test_shingles_are_the_same_on_every_machine() -> None:
    assert shingles("A b, c", ngram=2, unit="word").tolist() == [
        1885217619468049129,
        5599094796273729414,
        8064652577661087557,
    ]
    assert shingles("abc", ngram=2, unit="character").tolist() == [10912767545811187514, 13912026539846295632]
    assert shingles("half a \ud83d character", ngram=2, unit="word").size == 3


def test_bands_are_as_long_as_the_threshold_allows() -> None:
    """The share of pairs without a common band, counted, is below the bound that the length was chosen for."""
    assert band_shape(0.8, 128) == (5, 18)  # (1 - 0.8^5)^18 = 0.0008; 21 bands of 6 would miss 0.0017
    assert band_shape(0.1, 16) == (1, 16)
    assert band_shape(1.0, 128) == (128, 1)
    bands, rng, missed, pairs = Bands(threshold=0.6, permutations=128), np.random.default_rng(0), 0, 2000
    assert (1 - 0.6**bands.length) ** bands.count <= MAX_MISSED < (1 - 0.6**bands.length) ** (bands.count - 1)
    for _ in range(pairs):
        shared, one, two = np.split(rng.integers(0, 2**64, 60, dtype=np.uint64), [36, 48])  # 36 of 60: 0.6
        left, right = (bands.keys(np.unique(np.concatenate([shared, own]))) for own in (one, two))
        missed += not (left == right).any()
    assert missed <= 8  # 2 expected at the bound; more than 8 has probability 0.0002


@pytest.mark.parametrize("stretch", [1, 3, 1 << 20])
@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True), max_size=300))
def test_the_table_of_bands_is_a_dictionary(stretch: int, texts: list[list[int]]) -> None:
    with mock.patch.object(band_table, "STRETCH", stretch):
        _same_as_a_dictionary(texts)


def _same_as_a_dictionary(texts: list[list[int]]) -> None:
    table, expected, row = BandTable(first_bits=3), {}, 0
    spread = np.uint64(0x9E3779B97F4A7C15)

    def ask(keys: list[int]) -> None:
        found = table.rows((np.array(keys, np.uint64) * spread).tolist())
        assert sorted(found) == sorted({row for key in keys for row in expected.get(key, ())})

    def add(keys: list[int]) -> None:
        nonlocal row
        table.add((np.array(keys, np.uint64) * spread).tolist(), row)
        for key in keys:
            expected.setdefault(key, []).append(row)
        row += 1

    for one, other in zip(texts[::2], texts[1::2], strict=False):
        ask(one)
        add(other)  # not the one that was asked for, and in the slots that it would take
        add(one)
        ask(other)


@pytest.mark.parametrize("stretch", [1, 7, 1 << 20])
def test_growing_tables_keep_words_that_went_round_the_end(stretch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(band_table, "STRETCH", stretch)
    for seed in range(60):
        table, keys = BandTable(first_bits=3), np.random.default_rng(seed).integers(0, 2**64, 400, np.uint64).tolist()
        for row, key in enumerate(keys):
            table.add([key], row)
        assert [table.rows([key]) for key in keys] == [[row] for row in range(len(keys))]


@given(st.lists(st.frozensets(st.integers(0, 30)), min_size=1, max_size=40), st.sampled_from([0.3, 0.55, 1.0]))
def test_members_are_compared_as_sets(sets: list[frozenset[int]], threshold: float) -> None:
    members = Members(block=16)
    for position, own in enumerate(sets):
        array = np.array(sorted(own), np.uint32)
        expected = any(jaccard(own, other) >= threshold for other in sets[:position])
        assert members.any_similar(array, list(range(position)), threshold) == expected
        members.append(array)


def test_exact_duplicates_differ_by_white_space_at_most() -> None:
    contents = ["a  b", "a b", "a\nb", "A b", "ab", "caf\u00e9", "cafe\u0301"]
    assert kept(ExactDuplicates(), contents) == ["a  b", "A b", "ab", "caf\u00e9"]


def test_other_responses_are_other_rows() -> None:
    check = ExactDuplicates()
    one, two = (Candidate("x", "x", 0, item=prompt("p").item, response=response) for response in ("1", "2"))
    check.keep(one)
    assert check.reject(two) is None
    assert check.reject(one) == "duplicate"


@given(st.text(), st.floats(0.01, 0.99))
def test_every_prompt_is_in_one_part(content: str, border: float) -> None:
    parts = [HashSplit(0.0, border), HashSplit(border, 1.0)]
    assert sum(part.reject(prompt(content)) is None for part in parts) == 1


def rejects(check: Contamination, draft: Candidate) -> bool:
    return check.reject(draft) == "contaminated"


def test_planted_leaks_are_found_in_plain_text() -> None:
    leak = "Add 5 + 8 - 3 and name the result."
    check = Contamination([leak, "ab"], DecontaminateConfig())
    assert rejects(check, prompt(f"  {leak.replace(' ', '  ')}"))
    assert rejects(check, text("Homework 7. add 5 + 8 - 3 and name the RESULT. It is ten."))
    assert not rejects(check, text("Add 5 + 8 - 4 and name the result."))
    assert not rejects(check, text("A cab is not a leak of the two letters"))
    assert not rejects(check, prompt("Add 5 + 8 - 3 and name"))


def test_shared_ngrams_are_leaks_and_templates_are_not() -> None:
    rng = random.Random(0)
    template = "State the final answer to the following arithmetic problem please :"
    evaluation = [f"{template} {' '.join(rng.choices(WORDS, k=12))}" for _ in range(40)]
    check = Contamination(evaluation, DecontaminateConfig(ngrams={"size": 8}))
    fresh = f"{template} {' '.join(rng.choices(WORDS, k=12))}"
    assert not rejects(check, prompt(fresh))
    stolen = " ".join(evaluation[3].split()[-10:])
    assert rejects(check, prompt(f"Something else before {stolen} and behind"))
    picky = Contamination(evaluation, DecontaminateConfig(ngrams={"size": 8, "min_share": 0.9}))
    assert not rejects(picky, prompt(f"Something else before {stolen} and behind"))


def test_reworded_prompts_are_near_leaks() -> None:
    evaluation = documents(1, count=20, length=50)
    words = evaluation[4].split()
    words[7] = "changed"
    exact = Contamination(evaluation, DecontaminateConfig())
    near = Contamination(evaluation, DecontaminateConfig(near={"threshold": 0.7, "ngram": 3}))
    assert not rejects(exact, prompt(" ".join(words)))
    assert rejects(near, prompt(" ".join(words)))


def test_evaluation_sets_of_any_kind(tmp_path: Path) -> None:
    first = write_jsonl(tmp_path / "1", [{"prompt": "p", "answer": "1"}])
    second = write_jsonl(tmp_path / "2", [{"text": "t"}])
    assert list(evaluation_prompts([first, second])) == ["p", "t"]


@pytest.mark.parametrize(
    ("one", "other", "is_copy"),
    [
        ({"chosen": "a", "rejected": "b"}, {"chosen": "a", "rejected": "c"}, False),
        ({"chosen": "a", "rejected": "b"}, {"chosen": "b", "rejected": "a"}, False),
        ({"chosen": "a ", "rejected": "b"}, {"chosen": "a", "rejected": " b"}, True),
        ({"completion": "a", "label": True}, {"completion": "a", "label": False}, False),
        ({"completion": "a", "score": 0.5}, {"completion": "a", "score": 0.6}, True),
        ({"completion": "a"}, {"completion": "b"}, False),
        ({"completions": ["a", "b"]}, {"completions": ["a", "c"]}, False),
        ({"margin": 1.0}, {"margin": 2.0}, True),
    ],
)
def test_rows_of_one_prompt_are_copies_only_with_the_same_responses(
    one: dict[str, Any], other: dict[str, Any], is_copy: bool
) -> None:
    item = Item(id="1", domain="d", prompt="p", answer="", verifier="exact")
    check = ExactDuplicates()
    check.keep(Candidate("1", "d", 0, item=item, extras=one))
    assert check.reject(Candidate("2", "d", 0, item=item, extras=other)) == ("duplicate" if is_copy else None)
