"""How good the tests of items are: which known wrong programs they detect, and how soon (SAGA)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from components.contract.errors import InputError
from components.measure.harness.configs import DiagnosticConfig

if TYPE_CHECKING:
    from components.measure.formulas.suites import Kills
    from components.measure.harness.context import MeasureContext
    from components.measure.harness.views import View
    from components.measure.outcomes import ItemOutcomes
    from components.tasks.item import Item

WRONG, TESTS = "wrong", "tests"


class TestSuiteConfig(DiagnosticConfig):
    """No settings of its own."""

    gives: ClassVar[Mapping[str, str]] = {
        "suite_dr": "DR@k with all k tests: share of the known wrong programs that some test fails",
        "suite_vacc": "VAcc@k with all k tests: share of problems whose wrong programs all fail",
        "suite_auc": "Area under VAcc@k for k from 1 to all tests, over its width",
        "suite_depc": "Different sets of wrong programs that a test fails, over the number of tests",
    }


def test_suite(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, config: TestSuiteConfig
) -> View:
    """Run the known wrong programs `data["wrong"]` of each item on each of its tests `data["tests"]` alone.

    Reads no response. Items without wrong programs count nowhere; domains without any such item are left out. Suites of
    a domain are compared up to the shortest one. Source: components/measure/formulas/suites.py.
    """
    import numpy as np

    from components.measure.formulas.suites import accurate, area, detected, patterns
    from components.measure.harness.views import Chart, Line, View, ViewTable
    from components.measure.metrics import metric_key

    metrics: dict[str, Any] = {}
    rows, lines = [], []
    for domain, found in outcomes.items():
        kills = [one for outcome in found if (one := kills_of(outcome.item)) is not None]
        if not kills:
            continue
        shortest = min(one.shape[1] for one in kills)
        cut = [one[:, :shortest] for one in kills]
        right = np.mean([accurate(one) for one in cut], axis=0)
        numbers = {
            "suite_dr": context.bootstrap.mean_interval([float(detected(one)[-1]) for one in cut]),
            "suite_vacc": context.bootstrap.mean_interval([float(accurate(one)[-1]) for one in cut]),
            "suite_auc": context.bootstrap.mean_interval([area(accurate(one)) for one in cut]),
            "suite_depc": context.bootstrap.mean_interval([patterns(one) / shortest for one in cut]),
        }
        metrics |= {metric_key(name, domain): one for name, one in numbers.items()}
        rows.append([domain, float(len(cut)), float(shortest), *numbers.values()])
        lines.append(Line(domain, [(k + 1.0, float(value)) for k, value in enumerate(right)]))
    if not rows:
        raise InputError("diagnostic test_suite: no item holds `data.wrong`, known wrong programs; source suites does")
    head = ["domain", "problems", "tests", "DR", "VAcc", "AUC", "DEPC / tests"]
    chart = Chart("problems whose wrong programs all fail, by tests", lines, "tests", "VAcc@k")
    text = "A reward by tests pays the wrong programs that they do not detect: 1 - DR of the known ones."
    return View(text, metrics, [ViewTable("suites of tests", head, rows)], [chart])


def kills_of(item: Item) -> Kills | None:
    """Return [W, T], or None for an item without wrong programs or tests; a verdict that fails kills nothing."""
    import numpy as np

    from components.tasks.verify import Outcome, verify_all

    wrong, tests = item.data.get(WRONG), item.data.get(TESTS)
    if not (isinstance(wrong, list) and wrong and isinstance(tests, list) and tests):
        return None
    alone = [item.model_copy(update={"data": {**item.data, TESTS: [test]}}) for test in tests]
    verdicts = verify_all((one, str(text)) for text in wrong for one in alone)
    return np.array([verdict.outcome is Outcome.WRONG for verdict in verdicts]).reshape(len(wrong), len(tests))
