"""Circuits judged by a bench alone: on how many of its points one is right."""

from __future__ import annotations

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.domains.testbenches import POINT, passed_points
from components.tasks.item import Item
from components.tasks.verifiers.executable.circuits import MAX_INPUTS
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong


class BenchPointsConfig(Params):
    """No settings of its own."""


def bench_points(item: Item, response: str, *, config: BenchPointsConfig) -> Verdict:
    """Compute the answer on the points `data["bench"]`; the score is the share that it passes, 0 if it is no circuit.

    Right on all points is RIGHT, though it may be wrong elsewhere: verifier `circuits` has the whole table. The
    language is ours, as there. Source: VeriPrefer (arXiv:2504.15804): the share of a testbench's points that pass.
    """
    names, points = item.data.get("names"), item.data.get("bench")
    if not (isinstance(names, str) and 0 < len(set(names)) == len(names) <= MAX_INPUTS):
        raise BrokenItem(f"data.names is not of source circuits: {names!r:.40}")
    if not (isinstance(points, list) and points and all(_is_point(one, len(names)) for one in points)):
        raise BrokenItem(f"data.bench is no list of points of {len(names)} inputs: {points!r:.80}")
    text = extract_answer(response).removeprefix("assign ").removeprefix("y").strip().removeprefix("=")
    share = passed_points(text.removesuffix(";"), points, names)
    if share is None:
        return wrong(f"no expression of {', '.join(names)}: {text[:60]!r}")
    return RIGHT if share == 1 else wrong(f"{round(share * len(points))} of {len(points)} points", graded=share)


def _is_point(point: object, width: int) -> bool:
    found = POINT.fullmatch(point) if isinstance(point, str) else None
    return found is not None and len(found[1]) == width
