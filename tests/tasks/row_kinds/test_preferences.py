"""Rows of preferences: TRL's forms read as TRL reads them, hub columns, and what a bad pair is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.messages import Message
from components.tasks.row_kinds.preferences import Preference, preference_of
from components.tasks.row_kinds.reading import LARGEST, judged_rows, kind_of, read_judged
from components.tasks.rows import write_rows
from components.tasks.source import BadRow

ULTRAFEEDBACK = Path(__file__).parent / "ultrafeedback.jsonl"
USER, BLUE, GREEN = (
    {"role": role, "content": content}
    for role, content in (("user", "Sky?"), ("assistant", "Blue."), ("assistant", "Green."))
)
PAIR = Preference(task="Sky?", chosen="Blue.", rejected="Green.")
FORMS: dict[str, dict[str, Any]] = {
    "texts": {"prompt": "Sky?", "chosen": "Blue.", "rejected": "Green."},
    "messages": {"prompt": [USER], "chosen": [BLUE], "rejected": [GREEN]},
    "prompt in the sides": {"chosen": [USER, BLUE], "rejected": [USER, GREEN]},
    "prompt told twice": {
        "prompt": "Sky?",
        "chosen": [USER, BLUE],
        "rejected": [USER, GREEN],
        "messages": [USER, BLUE],
    },
    "messages as prompt": {"messages": [USER], "chosen": "Blue.", "rejected": "Green."},
    "other role names": {
        "chosen": [{"from": "human", "value": "Sky?"}, {"from": "gpt", "value": "Blue."}],
        "rejected": [{"from": "human", "value": "Sky?"}, {"from": "gpt", "value": "Green."}],
    },
}
text = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1).filter(str.strip)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_pair(form: str) -> None:
    assert preference_of(FORMS[form]) == PAIR
    assert kind_of(FORMS[form]) == "preferences"


def test_a_file_of_ultrafeedback_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(ULTRAFEEDBACK.read_bytes())
    pairs = read_judged(tmp_path, preference_of)
    assert len(pairs) == 20
    first = Preference(
        task="Name a fruit that is yellow.", chosen="A banana is yellow when it is ripe.", rejected="Blue.", margin=6.0
    )
    assert pairs[0] == first


def test_a_longer_conversation_stays_one() -> None:
    opened = [{"role": "system", "content": "Short."}, USER, BLUE, {"role": "user", "content": "Sea?"}]
    pair = preference_of({"prompt": "Sky?", "chosen": [*opened, BLUE], "rejected": [*opened, GREEN]})
    assert isinstance(pair.task, tuple)
    assert [message.role for message in pair.task] == ["system", "user", "assistant", "user"]
    assert preference_of(pair.row()) == pair


@pytest.mark.parametrize("chosen", ["The sky is blue.", "The sky is brown now"])
def test_a_prompt_inside_of_texts_is_found_as_trl_finds_it(chosen: str) -> None:
    trl = pytest.importorskip("trl.data_utils")
    row = {"chosen": chosen, "rejected": "The sky is black, or so"}
    pair = preference_of(row)
    assert {"prompt": pair.task, "chosen": pair.chosen, "rejected": pair.rejected} == trl.extract_prompt(row)


@given(
    prompt=text,
    sides=st.tuples(text, text).filter(lambda both: both[0] != both[1]),
    margin=st.none() | st.floats(-LARGEST, LARGEST),
    weight=st.floats(0, 1e6),
)
def test_what_is_written_is_read(prompt: str, sides: tuple[str, str], margin: float | None, weight: float) -> None:
    chosen, rejected = sides
    both = {"chosen": chosen, "rejected": rejected}
    pair = Preference(task=prompt, **both, margin=margin, weight=weight, domain="d", label_source="scorer")
    assert preference_of(pair.row()) == pair
    step = Preference(task=prompt, **both, prefix=chosen, ended=False)
    assert preference_of(step.row()) == step


def test_a_column_of_margins_stands_above_scores() -> None:
    scored = {**FORMS["texts"], "score_chosen": 3, "score_rejected": 5.0}
    assert preference_of(scored).margin == -2.0
    assert preference_of({**scored, "margin": 1}).margin == 1.0


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"prompt": "Sky?", "chosen": "Blue."}, "no rejected: a row of preferences has chosen, rejected; this one has"),
    ({"prompt": "Sky?", "response": "Blue."}, "no chosen and no rejected"),
    (
        {**FORMS["texts"], "rejected": "Blue."},
        r"chosen and rejected are equal \('Blue.'\): such a pair prefers nothing",
    ),
    ({"chosen": "Blue.", "rejected": "Blue."}, "are equal"),
    ({"chosen": "Blue.", "rejected": "Green."}, "no beginning in common"),
    ({"chosen": "Blue.", "rejected": [GREEN]}, "no prompt: give `prompt` or `messages`"),
    ({**FORMS["texts"], "chosen": "  "}, "chosen is blank"),
    ({**FORMS["texts"], "rejected": "\ud800"}, "rejected: half of a surrogate pair at character 0"),
    ({**FORMS["texts"], "rejected": 3}, "rejected is 3, expected a text or one message of the assistant"),
    ({**FORMS["messages"], "rejected": [GREEN, USER]}, "rejected is .*, expected a text or one message"),
    ({"chosen": [USER, BLUE], "rejected": [{**USER, "content": "Sea?"}, GREEN]}, r"differ at messages\[0\]"),
    ({"chosen": [USER, BLUE], "rejected": [USER]}, "rejected does not end with an answer"),
    (
        {**FORMS["prompt told twice"], "prompt": "Sea?"},
        "the prompt 'Sea\\?' is not what the conversation in chosen asks",
    ),
    ({**FORMS["messages"], "prompt": [USER, BLUE]}, "prompt end with the assistant"),
    ({**FORMS["texts"], "margin": "large"}, "margin 'large' is no finite number"),
    ({**FORMS["texts"], "weight": -1}, "weight -1 is no finite number from 0"),
    ({**FORMS["texts"], "domain": 3}, "domain 3 is no text"),
    ({**FORMS["texts"], "prefix": 3}, "prefix is 3, expected text"),
    ({**FORMS["texts"], "prefix": "\ud800"}, "prefix: half of a surrogate pair at character 0"),
    ({**FORMS["texts"], "label_source": " "}, "label_source is blank"),
    ({**FORMS["texts"], "margin": 1e300}, r"margin 1e\+300 is too large: losses are computed in float32"),
    ({**FORMS["texts"], "margin": -(10**400)}, "margin -10+... is no finite number"),
    ({**FORMS["texts"], "score_chosen": 1.7e308, "score_rejected": 0}, r"score_chosen 1.7e\+308 is too large"),
    (
        {**FORMS["texts"], "score_chosen": 3e38, "score_rejected": -3e38},
        r"score_chosen 3e\+38 less score_rejected -3e\+38 is too large",
    ),
    ({**FORMS["texts"], "ended": "no"}, "ended 'no' is neither true nor false"),
    ({"prompt": [USER], "chosen": [{**BLUE, "tool_calls": [{"name": "w"}]}], "rejected": [GREEN]}, "calls tools"),
]


@pytest.mark.parametrize(("row", "told"), WRONG)
def test_a_bad_pair_gets_one_line(row: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told) as raised:
        preference_of(row)
    assert "\n" not in str(raised.value)


def test_bad_pairs_are_named_by_file_and_line(tmp_path: Path) -> None:
    write_rows(tmp_path, [FORMS["texts"], {**FORMS["texts"], "rejected": "Blue."}])
    with pytest.raises(InputError, match=r"^rows\.jsonl:2: chosen and rejected are equal"):
        read_judged(tmp_path, preference_of)
    good, bad = judged_rows(tmp_path, preference_of)
    assert good == PAIR
    assert isinstance(bad, BadRow)


def test_marks_for_training_are_no_part_of_a_task() -> None:
    asked = [USER, {**BLUE, "learn": True}, {"role": "user", "content": "Sea?"}]
    pair = preference_of({"messages": asked, "chosen": "Blue.", "rejected": "Green."})
    assert pair.task == tuple(Message(role=one["role"], content=one["content"]) for one in asked)


def test_empty_texts_are_none_and_a_prefix_may_be_white_space() -> None:
    assert preference_of({**FORMS["texts"], "prefix": "", "label_source": ""}) == PAIR
    step = preference_of({**FORMS["texts"], "prefix": "\n"})
    assert step.prefix == "\n" and preference_of(step.row()) == step


def test_hostile_names_of_columns_are_told_short_and_visible() -> None:
    names = ["\x1b[31mred", "two\nlines", "x" * 3000, "half\ud800", *(f"c{at:02}" for at in range(20))]
    with pytest.raises(InputError) as raised:
        preference_of(dict.fromkeys(names, "?"))
    told = str(raised.value)
    assert told.isprintable() and len(told) < 400
    assert told.endswith("c09, c10, 12 more"), "sorted, and twelve of them"
