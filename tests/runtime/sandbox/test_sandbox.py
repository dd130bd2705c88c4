"""The contract of a call: what comes back, what is kept apart, and what is said where there is no sandbox."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from components.contract.errors import InputError
from components.runtime.sandbox import Limits, NoSandbox, Status, open_sandbox
from components.runtime.sandbox.backends import SETTING
from components.runtime.sandbox.inside import landlock
from tests.runtime.sandbox.escapes import honest

PROGRAMS = "components.runtime.sandbox.inside.programs"
RUN = f"{PROGRAMS}:run_python"


def test_a_value_comes_back_as_plain_json(sandbox):
    source = "def f(a, *, b=2):\n    print('said', a)\n    return {'pair': (a, b), 'set': {3, 1, 2}, 'text': 'x'}"
    reply = sandbox.call(RUN, {"source": source, "entry": "f", "arguments": [7]})
    assert (reply.status, reply.value, reply.stdout) == (
        Status.VALUE,
        {"pair": [7, 2], "set": [1, 2, 3], "text": "x"},
        "said 7\n",
    )
    assert 0 < reply.seconds < 5


@pytest.mark.parametrize(
    ("source", "status", "detail"),
    [
        ("1 / 0", Status.RAISED, "ZeroDivisionError: division by zero"),
        ("def broken(:", Status.RAISED, "SyntaxError"),
        ("raise SystemExit(0)", Status.RAISED, "SystemExit: 0"),
        ("import os; os._exit(3)", Status.DIED, "exit code 3"),
        ("import os; os.kill(os.getpid(), 11)", Status.DIED, "SIGSEGV"),
        ("raise MemoryError", Status.MEMORY, "512 MiB"),
    ],
)
def test_what_came_of_a_program_is_told_apart(sandbox, source, status, detail):
    reply = sandbox.call(RUN, {"source": source})
    assert reply.status is status
    assert detail in reply.detail


def test_a_program_reads_its_stdin(sandbox):
    reply = sandbox.call(RUN, {"source": "print(sum(int(input()) for _ in range(2)))", "stdin": "4\n5\n"})
    assert (reply.status, reply.stdout) == (Status.VALUE, "9\n")


def test_nothing_of_a_run_is_there_for_the_next(sandbox):
    dirty = (
        "import json, os, random\njson.LEFT = 1\nopen('left', 'w').write('x')\nos.environ['LEFT'] = '1'\nrandom.seed(9)"
    )
    draw = (
        "import json, os, random\ndef f():\n"
        "    return [os.listdir('.'), 'LEFT' in os.environ, hasattr(json, 'LEFT'), random.random()]"
    )
    first = sandbox.call(RUN, {"source": draw, "entry": "f"})
    assert sandbox.call(RUN, {"source": dirty}).status is Status.VALUE
    assert sandbox.call(RUN, {"source": draw, "entry": "f"}).value == first.value == [[], False, False, first.value[3]]


def test_random_numbers_and_hashes_are_the_same_in_every_sandbox(backend):
    draw = {
        "source": "import random\ndef f():\n    return [random.random(), list({'a', 'b', 'c'}), hash('x')]",
        "entry": "f",
    }
    drawn = []
    for _ in range(2):
        with open_sandbox(servers=1) as sandbox:
            drawn.append(sandbox.call(RUN, draw).value)
    assert drawn[0] == drawn[1] is not None


def test_a_command_of_another_language_runs_inside(backend):
    with open_sandbox(tools=("sh",), servers=1) as sandbox:
        program = {
            "files": {"a.sh": "read n; echo $((n * 2)); exit 3"},
            "commands": [["sh", "a.sh"]],
            "stdin": "21\n",
            "most": 100,
        }
        assert sandbox.call(f"{PROGRAMS}:run_command", program).value == {"exit": 3, "stdout": "42\n", "failed": None}
        flood = {"commands": [["sh", "-c", "while :; do echo x; done"]], "most": 100}
        assert len(sandbox.call(f"{PROGRAMS}:run_command", flood).value["stdout"]) == 100


def test_a_module_that_cannot_be_imported_is_the_sandbox_at_fault(sandbox):
    reply = sandbox.call("components.no_such_module:f")
    assert reply.status is Status.BROKE
    assert "components.no_such_module" in reply.detail
    assert honest(sandbox) == []


def test_an_import_does_not_count_against_the_limit(backend, tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.5)\ndef f(argument):\n    return argument\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with open_sandbox(preload=("slow_to_import",), servers=1) as sandbox:
        reply = sandbox.call("slow_to_import:f", 1, Limits(seconds=0.4))
    assert (reply.status, reply.value) == (Status.VALUE, 1)


def test_a_library_may_keep_a_cache_while_it_is_imported_and_no_run_sees_it(backend, tmp_path, monkeypatch):
    source = (
        "import os, pathlib\npathlib.Path(os.environ['HOME'], 'cache').write_text('x')\n"
        "def f(argument):\n    return os.listdir(os.environ['HOME'])\n"
    )
    (tmp_path / "keeps_a_cache.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with open_sandbox(preload=("keeps_a_cache",), servers=1) as sandbox:
        seen = sandbox.call("keeps_a_cache:f")
    assert (seen.status, [name for name in seen.value if name == "cache"]) == (Status.VALUE, [])


def test_what_is_imported_later_does_not_count_against_a_run(backend, tmp_path, monkeypatch):
    (tmp_path / "large_to_import.py").write_text(
        "kept = b'x' * (96 << 20)\ndef f(argument):\n    return len(kept) >> 20\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    small = Limits(seconds=20, memory_bytes=32 << 20, file_bytes=1 << 20)
    with open_sandbox(servers=1) as sandbox:
        assert sandbox.call(f"{PROGRAMS}:echo", 1, small).value == 1
        assert sandbox.call("large_to_import:f", 1, small).value == 96
        assert sandbox.call(f"{PROGRAMS}:echo", 2, small).value == 2
        greedy = sandbox.call(RUN, {"source": "kept = b'x' * (64 << 20)"}, small)
    assert greedy.status is Status.MEMORY


def test_limits_have_to_be_possible():
    for wrong in ({"seconds": 0}, {"seconds": float("inf")}, {"memory_bytes": -1}, {"processes": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Limits(**wrong)


def test_a_tool_that_is_not_installed_is_named(backend):
    with open_sandbox(tools=("no-such-compiler",), servers=1) as sandbox:
        reply = sandbox.call(RUN, {"source": "1"})
    assert (reply.status, reply.detail) == (Status.BROKE, "no-such-compiler is not installed")


def test_an_argument_that_is_no_json_is_refused_before_anything_runs(sandbox):
    with pytest.raises(TypeError):
        sandbox.call(RUN, {"source": object()})
    assert honest(sandbox) == []


def test_threads_share_a_sandbox_and_get_their_own_answers(backend):
    with open_sandbox(servers=2) as sandbox:
        got: dict[int, object] = {}

        def ask(number: int) -> None:
            got[number] = sandbox.call(f"{PROGRAMS}:echo", number, Limits(seconds=20)).value

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert got == {number: number for number in range(12)}


def test_a_sandbox_outlives_the_thread_that_opened_it(backend):
    with open_sandbox(servers=1) as sandbox:
        opener = threading.Thread(target=honest, args=(sandbox,))
        opener.start()
        opener.join()
        before = sandbox._idle[0]._server
        assert honest(sandbox) == []
        assert sandbox._idle[0]._server is before


def test_a_forked_process_gets_a_sandbox_of_its_own(sandbox):
    assert honest(sandbox) == []
    child = os.fork()
    if child == 0:
        good = honest(sandbox) == []
        sandbox.close()
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert honest(sandbox) == []


def test_where_there_is_no_sandbox_one_line_names_package_and_setting(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("components.runtime.sandbox.backends._found", {})
    monkeypatch.setattr("components.runtime.sandbox.launch.BACKENDS", ("bubblewrap",))
    monkeypatch.setenv(SETTING, "bubblewrap")
    with pytest.raises(NoSandbox) as caught:
        open_sandbox().call(RUN, {"source": "1"})
    message = str(caught.value)
    assert "apt-get install bubblewrap" in message
    assert "user.max_user_namespaces" in message
    assert "bwrap is not installed" in message
    assert "\n" not in message
    assert isinstance(caught.value, InputError)


def test_a_setting_that_names_no_backend_is_refused(monkeypatch):
    monkeypatch.setenv(SETTING, "none")
    with pytest.raises(InputError, match=f"{SETTING}=none: it is auto, bubblewrap or landlock"):
        open_sandbox().call(RUN, {"source": "1"})


def test_importing_the_sandbox_starts_nothing():
    code = "import components.runtime.sandbox as s, threading; s.open_sandbox(); print(threading.active_count())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PATH": "/nonexistent"}
    )
    assert done.stdout.strip() == "1", done.stderr


def test_landlock_says_its_version():
    assert landlock.version() >= 0
