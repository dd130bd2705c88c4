"""Programs of hidden sub-goals: the machine by hand and against another interpreter, places, thoughts, verdicts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused, OperatorSpec
from components.tasks.domains.worlds.subgoals import Goal, NotExecutable, execute, program_of, read_goals
from components.tasks.item import Item
from components.tasks.source import SourceRequest, SourceRow
from components.tasks.verify import Outcome, verify

GOALS = [Goal((4, 7, -3), 2), Goal((5, 2), 1)]
PROGRAM = "s8\no\ni\no\ns7\no"


def rows(**config: Any) -> list[SourceRow]:
    spec = OperatorSpec.model_validate({"name": "subgoal_programs", **config})
    found = spec.resolve("source")(SourceRequest(seed=3, limit=200, scratch=Path("unused")))
    return [row for row in found.rows if isinstance(row, SourceRow)]


def write(item: Item, seed: int = 0, **config: Any) -> str:
    spec = OperatorSpec.model_validate({"name": "subgoal_programs", **config})
    return str(spec.resolve("demonstrator")(item, random.Random(seed)))


def python_of(program: str) -> list[int]:
    """Run a program as Python: another interpreter than ours."""
    words = {"o": "tape.append(n)", "i": "n += 1"}
    body = [words.get(line, f"n = int('{line[1:]}')") for line in program.split("\n") if line and line[0] != "<"]
    scope: dict[str, Any] = {"n": 0, "tape": []}
    exec("\n".join(body), scope)
    return list(scope["tape"])


class TestMachine:
    def test_a_program_by_hand(self) -> None:
        assert program_of(GOALS) == (PROGRAM.split("\n"), [True, False, False, False, True, False])
        assert execute(PROGRAM) == [8, 9, 7] and execute("o\ni\no") == [0, 1] and execute("") == []
        assert execute("<think>4+7=11 11-3=8\ns8\n\no") == [8]
        assert str(GOALS[0]) == "4+7-3:2" and GOALS[0].thought == "4+7=11 11-3=8"

    @given(st.lists(st.sampled_from(["o", "i", "s3", "s-12", "s400", "<think>o", ""]), max_size=30))
    def test_it_agrees_with_python(self, lines: list[str]) -> None:
        assert execute("\n".join(lines)) == python_of("\n".join(lines))

    @given(st.lists(st.tuples(st.lists(st.integers(-9, 9), max_size=5), st.integers(1, 20)), min_size=1, max_size=4))
    def test_goals_are_read_as_they_are_written_and_their_programs_reach_them(self, drawn: Any) -> None:
        goals = [Goal((4, *(term or 1 for term in terms)), length) for terms, length in drawn]
        assert read_goals(" ".join(map(str, goals))) == goals
        assert execute("\n".join(program_of(goals)[0])) == [number for goal in goals for number in goal.tape]
        assert [eval(str(goal).partition(":")[0]) for goal in goals] == [goal.value for goal in goals]

    @pytest.mark.parametrize(
        "program", ["x", "s", "s1234567", "print(1)", "o o", "i\n<answer>", "\n".join(["o"] * 401)]
    )
    def test_what_is_none_of_the_language_is_refused(self, program: str) -> None:
        with pytest.raises(NotExecutable):
            execute(program)


class TestSource:
    def test_a_program_is_right_and_any_other_tape_is_wrong(self) -> None:
        for row in rows(max_goals=3)[:40]:
            item = row.item("d")
            assert verify(item, row.answer).right and item.data["tape"] == python_of(row.answer)
            assert verify(item, f"<think>thinking\n{row.answer}").right
            assert verify(item, f"s1\no\n<answer>{row.answer}</answer>").right
            assert not verify(item, f"{row.answer}\no").right and not verify(item, "").right

    def test_the_score_is_how_far_the_tape_agrees(self) -> None:
        item = Item(
            id="a", domain="d", prompt="4+7-3:2 5+2:1", answer=PROGRAM, verifier="tape", data={"tape": [8, 9, 7]}
        )
        for program, score in [("s8\no", 1 / 3), ("s8\no\no", 1 / 3), (f"{PROGRAM}\no", 2 / 3), ("s9\no", 0), ("?", 0)]:
            verdict = verify(item, program)
            assert not verdict.right and verdict.score == pytest.approx(score)
        assert verify(item.model_copy(update={"data": {}}), PROGRAM).outcome is Outcome.FAILED

    def test_a_place_is_a_cut_between_lines(self) -> None:
        found = rows(task="place", ahead=2)
        for row in found:
            before, behind = row.data["before"], row.data["next"]
            goals = read_goals(row.data["goals"])
            lines, begins = program_of(goals)
            asked, _, written = f"{before}\n".partition("\n")
            at = written.count("\n")
            assert asked == row.data["goals"] and written.split("\n")[:-1] == lines[:at]
            assert behind.split("\n") == lines[at : at + 2] and row.data["change"] is begins[at]
            assert row.data["goal"] == sum(begins[: at + 1]) - 1 and row.prompt == f"{before}\n?"
        share = sum(row.data["change"] for row in found) / len(found)
        assert 0.15 < share < 0.4, "programs of two goals have 4 to 12 lines, and two changes"

    def test_parts_share_no_program(self) -> None:
        train, test = (rows(part=part, task=task) for part, task in (([0.3, 1], "place"), ([0, 0.3], "program")))
        assert not {row.data["goals"] for row in train} & {row.prompt for row in test}

    def test_bad_settings_are_refused_in_a_line(self) -> None:
        with pytest.raises(InputError, match="min_goals 3 is above max_goals 2"):
            rows(min_goals=3)
        with pytest.raises(OperatorRefused, match="terms"):
            rows(terms=0)


class TestThoughts:
    ITEM = Item(id="a", domain="d", prompt="4+7-3:2 5+2:1", answer=PROGRAM, verifier="tape", data={"tape": [8, 9, 7]})

    def place(self, at: int) -> Item:
        lines, begins = program_of(GOALS)
        data = {"goals": "4+7-3:2 5+2:1", "change": begins[at], "goal": sum(begins[: at + 1]) - 1}
        return Item(id="b", domain="d", prompt="?", answer=lines[at], verifier="exact", data=data)

    def test_thoughts_stand_where_they_are_asked_for(self) -> None:
        assert write(self.ITEM) == PROGRAM
        assert write(self.ITEM, at_changes=1.0) == "<think>4+7=11 11-3=8\ns8\no\ni\no\n<think>5+2=7\ns7\no"
        assert write(self.ITEM, thoughts=1.0).count("<think>") == 6
        assert [write(self.place(at), at_changes=1.0) for at in (0, 1, 4)] == [
            "<think>4+7=11 11-3=8",
            "-",
            "<think>5+2=7",
        ]

    def test_rates_and_goals_by_chance(self) -> None:
        written = [write(self.place(2), seed, thoughts=0.5, other_goal=1.0) for seed in range(600)]
        for text, share in (("-", 0.5), ("<think>4+7=11 11-3=8", 0.25), ("<think>5+2=7", 0.25)):
            assert abs(written.count(text) / 600 - share) < 0.07

    def test_other_items_are_refused_by_name(self) -> None:
        with pytest.raises(InputError, match="item c is not of source subgoal_programs"):
            write(Item(id="c", domain="d", prompt="word: abc", answer="cba", verifier="exact"))
        with pytest.raises(InputError, match=r"data.goal 5 is none of its goals"):
            write(self.place(0).model_copy(update={"data": {"goals": "4+7-3:2", "goal": 5}}))
