"""Plans of typed functions, judged by executing them; names are looked up, and nothing is evaluated."""

from __future__ import annotations

from typing import Literal

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.domains.worlds.plans import ALPHABET, FIRST, NotExecutable, execute, read_plan, write_value
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

MAX_CHARS = 1000
MAX_WORD = 32
LETTERS = frozenset(chr(FIRST + place) for place in range(ALPHABET))


class PlanConfig(Params):
    """What is asked of a plan."""

    want: Literal["values", "execution"] = "values"
    """values: what the item's cases show. execution: nothing but that it can be executed, to watch how many can."""


def plan(item: Item, response: str, *, config: PlanConfig) -> Verdict:
    """Execute a plan such as `uniq len` on the item's words; the score is the share of the cases that come out.

    RIGHT if all do, whatever the plan. One that cannot be executed is WRONG with score 0.
    Source: OpenAGI, reinforcement learning from task feedback: the metric of the executed plan, else 0.
    """
    cases = item.data.get("cases")
    if not (isinstance(cases, list) and cases and all(map(_is_case, cases))):
        raise BrokenItem(f"data.cases is no list of words with their values: {cases!r:.80}")
    text = extract_answer(response)
    if len(text) > MAX_CHARS:
        return wrong(f"a plan of {len(text)} characters", graded=0.0)
    try:
        names = read_plan(text)
    except NotExecutable as error:
        return wrong(f"not executable: {error}", graded=0.0)
    if config.want == "execution":
        return RIGHT
    met = [write_value(execute(names, word)[-1]) == value for word, value in cases]
    return RIGHT if all(met) else wrong(f"{sum(met)} of {len(met)} cases come out", graded=sum(met) / len(met))


def _is_case(case: object) -> bool:
    if not (isinstance(case, list) and len(case) == 2 and all(isinstance(part, str) for part in case)):
        return False
    return 0 < len(case[0]) <= MAX_WORD and set(case[0]) <= LETTERS
