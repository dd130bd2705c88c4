"""posttrain.fork: from a checkpoint that a run kept, with a change from there on; mistakes are messages."""

from __future__ import annotations

import json
from pathlib import Path

from tests.pipelines.client.test_run import _python

COUNTING = "tests/pipelines/engines/airflow/recipes/counting.yaml"
SCRIPT = """
import json
import posttrain

run = posttrain.run({recipe!r}, store={store!r}, progress=False)
wider = posttrain.fork(run, "count@4", set={{"stages.count.with.factor": 3}}, name="wider", progress=False)
same = posttrain.fork(run.id, "count@4", store={store!r}, progress=False)
told = []
before = {{"stages.base.with.factor": 7}}
for at, changes in (("count@3", None), ("score@1", None), ("count@4", before), ("count", None)):
    try:
        posttrain.fork(run, at, set=changes, progress=False)
    except posttrain.PosttrainError as error:
        told.append(str(error))
number = lambda one: one.metrics("count")["value"].tolist()
print(json.dumps([wider.id, number(run), number(wider), number(same), told]))
"""


def test_a_fork_goes_on_from_a_kept_checkpoint(toy_store: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(recipe=COUNTING, store=str(tmp_path / "store")))
    done = _python(toy_store, str(script))
    assert done.returncode == 0, done.stderr
    name, straight, wider, same, told = json.loads(done.stdout)
    assert name.startswith("wider-")
    assert (straight, wider, same) == ([6.0], [10.0], [6.0]), "four steps of 1, and two of 3"
    assert "kept no checkpoint of step 3; the nearest is count@2" in told[0]
    assert "makes no checkpoints of steps" in told[1]
    assert "no step of count can be shared" in told[2]
    assert "expected STAGE@STEP" in told[3]
