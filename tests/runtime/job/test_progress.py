"""What a stage tells while it runs, as lines."""

from __future__ import annotations

import io
import json

from components.runtime.job.progress import json_lines


def test_metrics_come_through_lines_in_the_order_in_which_they_were_told() -> None:
    stream = io.StringIO()
    write = json_lines(stream)
    write({"event": "progress", "stage": "rl", "done": 1, "total": 2, "metrics": {"pass_rate": 0.5, "entropy": 2.0}})
    write({"event": "finished", "stage": "rl", "metrics": {"pass_rate": 0.75, "entropy": 1.0}})
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [event["event"] for event in told] == ["progress", "finished"]
    assert [list(event["metrics"]) for event in told] == [["pass_rate", "entropy"]] * 2
