"""Programs of source subgoal_programs, judged by what they output; the interpreter is ours and total."""

from __future__ import annotations

from itertools import takewhile

from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN, extract_answer
from components.tasks.domains.worlds.subgoals import NotExecutable, execute
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

MAX_CHARS = 8000


class TapeConfig(Params):
    """No settings."""


def tape(item: Item, response: str, *, config: TapeConfig) -> Verdict:
    """Execute the response, comments aside; RIGHT if the tape is `data["tape"]`, else the score is how far it agrees.

    Of a response with an answer's mark the program is what follows the last one; without a mark, all of it.
    A text with a line that is none of the language is WRONG with score 0.
    """
    wanted = item.data.get("tape")
    if not (isinstance(wanted, list) and wanted and all(type(number) is int for number in wanted)):
        raise BrokenItem(f"data.tape is no list of numbers: {wanted!r:.80}")
    if len(response) > MAX_CHARS:
        return wrong(f"a program of {len(response)} characters", graded=0.0)
    try:
        found = execute(extract_answer(response) if ANSWER_OPEN in response else response)
    except NotExecutable as error:
        return wrong(f"not executable: {error}", graded=0.0)
    if found == wanted:
        return RIGHT
    agrees = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(found, wanted, strict=False)))
    return wrong(f"{agrees} of {len(wanted)} numbers come out", graded=min(agrees, len(wanted) - 1) / len(wanted))
