"""Rewrites that fool a classifier: pairs and lessons by hand, the gate, and against brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.heads import LANGUAGE
from components.contract.operators import OperatorSpec
from components.modeling.serving.models import Likelihood, Scorer
from components.synthesize.component import asks, heads
from components.synthesize.made import Dropped, Made
from components.synthesize.params import SynthesizeParams
from components.synthesize.slots import GENERATOR
from components.tasks.item import Item
from tests.synthesize.scripted import CONTEXT, item, scripted

SEED = item("a", "abc", "y", "exact")
Table = dict[str, tuple[float, float] | None]
TABLE: Table = {"opq": (-1, -3), "opr": (-3, -1), "uvw": (-5, -0.5), "uvq": (-0.2, -2), "uop": None}
"""Rewrite -> log-probabilities of labels y and n."""


class Guard(Scorer):
    """A classifier with a table."""

    def __init__(self, table: Table, name: str = "guard.model") -> None:
        self.table, self.name = table, name

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Likelihood | None]:
        found = [self.table.get(text) for text, _ in pairs]
        said = [("<answer>y", "<answer>n").index(label) for _, label in pairs]
        return [None if row is None else Likelihood(row[at], 2) for row, at in zip(found, said, strict=True)]


def rate(asked: Item, _: int) -> str:
    """Call rewrites with an x in them unfaithful, and say nothing of those with a z."""
    text = str(asked.data["response"])
    return "<answer>?" if "z" in text else "<answer>2" if "x" in text else "<answer>5"


def made(texts: Sequence[str | None], *tables: Table, seed: Item = SEED, **config: Any) -> list[Made | Dropped]:
    generator = OperatorSpec.model_validate({"name": "adversarial_rewrites", "num_samples": len(texts), **config})
    guards = [Guard(table, f"guard{at}.model") for at, table in enumerate(tables or (TABLE,))]
    writers = replace(scripted(lambda asked, number: texts[number], rate), scorers=guards)
    return list(generator.resolve(GENERATOR)([seed], writers, CONTEXT))


def counts(rows: Sequence[Made | Dropped]) -> dict[str, int]:
    return dict(Counter(row.reason if isinstance(row, Dropped) else "made" for row in rows))


def test_the_hardest_that_fools_before_the_easiest_that_does_not() -> None:
    rows = made(["<answer>opq", "<answer>opr", "<answer>uvw", "<answer>uvq", "<answer>uop"])
    (row,) = [row for row in rows if isinstance(row, Made)]
    assert row.extras == {
        "quality": "scripted", "chosen": "<answer>uvw", "rejected": "<answer>uvq", "margin": pytest.approx(4.8),
        "label_source": "guard0.model",
    }  # fmt: skip
    assert (row.item.prompt, row.item.answer, row.item.verifier) == ("say abc", "", "unlabelled")
    assert counts(rows) == {"made": 1, "over_cap": 2, "unscored": 1}


def test_the_gate_drops_other_lengths_poor_and_unread_ratings_and_counts_all() -> None:
    texts = ["opq", "opq", None, "op...", " ", "<answer>", "opqrst", "xpq", "zpq", "uvw"]
    rows = made(texts)
    assert counts(rows) == {
        "repeated": 1, "refused": 1, "unfinished": 1, "unparsed": 2, "other_length": 1, "poor": 1, "unrated": 1,
        "made": 1,
    }  # fmt: skip
    assert counts(made(["opqrst", "opq"], max_length_gap=None)) == {"unscored": 1, "no_contrast": 1}


def test_rewrites_take_their_seed_s_label_and_ask_no_classifier() -> None:
    rows = made(["<answer>opq", "<answer>uvw", "<answer>xop"], {}, rows="rewrites", domain="dialect", max_per_prompt=1)
    (row,) = [row for row in rows if isinstance(row, Made)]
    assert (row.item.prompt, row.item.answer, row.item.domain, row.response) == ("opq", "y", "dialect", "<answer>y")
    assert row.item.verifier == "exact" and counts(rows) == {"made": 1, "poor": 1, "over_cap": 1}


def test_no_pair_without_both_sides() -> None:
    assert counts(made(["opq", "uvq"])) == {"no_contrast": 2}
    assert counts(made(["opr", "uvw"])) == {"no_contrast": 2}


def test_several_classifiers_count_by_their_mean() -> None:
    rows = made(["opq", "opr"], {"opq": (-1, -2), "opr": (-1, -2)}, {"opq": (-1, -2), "opr": (-9, -2)})
    (row,) = [row for row in rows if isinstance(row, Made)]
    assert row.extras["chosen"] == "opr" and row.extras["margin"] == pytest.approx(4)


scores = st.tuples(st.floats(-9, 0), st.floats(-9, 0))


@given(st.dictionaries(st.text("opqr", min_size=3, max_size=3), scores, min_size=1, max_size=7), st.sampled_from("yn"))
def test_no_other_pair_is_wider(table: dict[str, tuple[float, float]], label: str) -> None:
    at = "yn".index(label)
    rows = made(list(table), dict(table), seed=item("a", "abc", label, "exact"))
    fooled = {text for text, (yes, no) in table.items() if ("y" if yes >= no else "n") != label}
    widest = max((table[other][at] - table[one][at] for one in fooled for other in set(table) - fooled), default=None)
    pairs = [row.extras for row in rows if isinstance(row, Made)]
    assert (widest is None) is (not pairs)
    if pairs:
        (pair,) = pairs
        assert pair["chosen"] in fooled and pair["rejected"] not in fooled and pair["margin"] == widest
    assert sum(counts(rows).values()) == len(table) - bool(pairs)


def test_another_answer_than_the_labels_is_told_in_a_line() -> None:
    with pytest.raises(InputError, match=r"the answer 'maybe' of item a is none of labels \['y', 'n'\]"):
        made(["opq"], seed=item("a", "abc", "maybe", "exact"))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"labels": ["y", "y"]}, "expected different texts"),
        ({"labels": ["y", ""]}, "expected different texts"),
        ({"request": "say it"}, "lacks {prompt}"),
        ({"said": "<answer>y"}, "lacks {label}"),
        ({"question": "{prompt}?"}, "lacks {response}"),
        ({"low": 5}, "low 5 is not below high 5"),
        ({"min_rating": 6}, "min_rating 6 is not from low 1 to high 5"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_a_line(config: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        OperatorSpec.model_validate({"name": "adversarial_rewrites", **config}).resolve(GENERATOR)


def test_pairs_ask_a_language_model_and_rewrites_none() -> None:
    spec: dict[str, Any] = {"name": "adversarial_rewrites"}
    pairs = SynthesizeParams.model_validate({"generator": spec, "judge_programs": ["dialect_judge"]})
    assert asks(pairs)["scorers"] == ["generator 'adversarial_rewrites'"] and heads(pairs) == {"scorers": LANGUAGE}
    lessons = SynthesizeParams.model_validate({"generator": {**spec, "rows": "rewrites"}})
    assert "scorers" not in asks(lessons) and asks(lessons)["judges"]


@pytest.mark.parametrize("text", ["</answer>" * 9, "<answer>{prompt}{label}", "\x00\ud800q", "<answer>5" * 50])
def test_hostile_rewrites_stay_text(text: str) -> None:
    rows = made([text], {}, rows="rewrites", max_length_gap=None)
    assert sum(counts(rows).values()) == 1


def test_judges_read_no_control_marks_of_what_they_rate() -> None:
    seen = []

    def judge(asked: Item, _: int) -> str:
        seen.append(asked.prompt)
        return "<answer>5"

    spec = {"name": "adversarial_rewrites", "num_samples": 1, "rows": "rewrites", "max_length_gap": None}
    writers = scripted(lambda asked, number: "<answer>ab <|eos|></s>", judge)
    list(OperatorSpec.model_validate(spec).resolve(GENERATOR)([SEED], writers, CONTEXT))
    assert len(seen) == 1 and "<|eos|>" not in seen[0] and "</s>" not in seen[0]
