"""What a fork server has loaded counts as it was then: its children run it, whatever its file says by now."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import json, multiprocessing, os
from pathlib import Path
import digest
from pipelines.engines.local.fork_server import JobServer

server = JobServer()
server.preload(["own_operator"], os.environ)
found = []
for name, text in (("", ""), ("own_operator.py", "VALUE = 2"), ("own_later.py", "VALUE = 2")):
    if name:
        Path(name).write_text(text)
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = server.start(digest.tell, (sender,), os.environ, name="job")
    found.append([receiver.recv(), digest.of()])
    process.join()
print(json.dumps(found))
"""
DIGEST = """
from components.runtime.closure.walk import Closures
def of():
    import own_operator
    return own_operator.VALUE, Closures().of("own_operator", "x").files
def tell(sender, environment):
    sender.send(of())
"""


def test_an_edit_while_a_run_is_on_its_way(tmp_path: Path) -> None:
    """The child of the fork server runs what was loaded; a module that nobody has loaded counts as its file is."""
    files = {
        "own_operator.py": "VALUE = 1\ndef later():\n    import own_later\n",
        "own_later.py": "VALUE = 1\n",
        "digest.py": DIGEST,
        "program.py": PROGRAM,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    first, edited, later = json.loads(done.stdout)
    (value, files_then), (_, files_of_parent) = first
    assert value == 1 and files_then == files_of_parent
    assert edited[0] == [1, files_then]
    assert edited[1][1].keys() == {"own_operator.py"} != files_then.keys()  # a new process would run the edited file
    assert later[0][1]["own_operator.py"] == files_then["own_operator.py"]
    assert later[0][1]["own_later.py"] != files_then["own_later.py"]
