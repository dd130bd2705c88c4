"""Samples in a notebook: escaped, spelled out, and whole where a program asks for them."""

from __future__ import annotations

from components.contract.samples import Sample
from pipelines.client.samples import SHOWN_HEAD, Samples
from pipelines.runs.samples import Found, StageSamples

HOSTILE = "</div><script>alert(1)</script>\x1b[2J\u202e"


def samples(*found: Sample) -> Samples:
    stage = StageSamples("rl", "rl", list(found))
    return Samples(Found([(stage, sample) for sample in found], [stage], num_matching=7, notes=[HOSTILE]))


def test_what_a_model_wrote_is_only_text() -> None:
    hostile = Sample(prompt=HOSTILE, response=HOSTILE, domain=HOSTILE, outcome=HOSTILE, detail=HOSTILE, answer=HOSTILE)
    page = samples(hostile)._repr_html_()
    assert "<script" not in page and page.count("&lt;script&gt;") == 7
    assert "\x1b" not in page and "\u202e" not in page and "\\x1b[2J\\u202e" in page


def test_they_are_a_sequence_and_a_table() -> None:
    sample = Sample(prompt="2 + 3 =", response="5", reward=0.9, parts={"verified": 1.0, "length": -0.1}, step=3)
    found = samples(sample, Sample(prompt="x" * (2 * SHOWN_HEAD), response="y", outcome="right"))
    assert len(found) == 2 and found[0] is sample and found[:1] == [sample] and found.num_matching == 7
    assert repr(found) == "<2 of 7 samples; to_pandas() gives a table>"
    table = found.to_pandas()
    assert table["response"].tolist() == ["5", "y"] and table["stage"].tolist() == ["rl", "rl"]
    assert len(table.loc[1, "prompt"]) == 2 * SHOWN_HEAD
    page = found._repr_html_()
    assert "rl | step 3 | reward 0.9 = verified 1 + length -0.1" in page and "characters left out" in page
    assert "2 of 7 samples" in page
