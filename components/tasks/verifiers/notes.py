"""The gold score of a note: its points in order, within a length."""

from __future__ import annotations

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.keywords import keyword_hits, ordered_coverage
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong


class NotesVerifierConfig(Params):
    """No settings of its own."""


def notes(item: Item, response: str, *, config: NotesVerifierConfig) -> Verdict:
    """Score the points covered in order (`ordered_coverage`), times max_words over the words if there are more.

    RIGHT with all points in order, none repeated, and no more words than allowed.
    """
    points, most = item.data.get("points"), item.data.get("max_words")
    if not (isinstance(points, list) and points and all(isinstance(point, str) for point in points)):
        raise BrokenItem(f"data.points is no list of texts: {points!r:.80}")
    if not (isinstance(most, int) and most > 0):
        raise BrokenItem(f"data.max_words is no number of words: {most!r:.80}")
    text = extract_answer(response)
    covered = ordered_coverage(keyword_hits(text, points), [point.casefold() for point in points])
    words = len(text.split())
    score = covered * min(1.0, most / max(words, 1))
    return RIGHT if score == 1 else wrong(f"{covered:.2f} of the points in order, {words} words", graded=score)
