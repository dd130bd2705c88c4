"""Verifier code_tests: honest programs, programs that cheat, broken items, four languages."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from components.tasks.item import Item
from components.tasks.programs import languages
from components.tasks.verify import Outcome, verify, verify_all

DOUBLE = "def f(x):\n    return 2 * x\n"
CALLS = [{"args": [1], "expected": 2}, {"args": [[3]], "expected": [3, 3]}, {"args": ["a"], "expected": "aa"}]
ECHO = [{"stdin": "3 4\n", "stdout": "7\n"}, {"stdin": "1 1", "stdout": "2"}]
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="Debian's gcc is not installed")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Debian's nodejs is not installed")


def program_item(answer: str = DOUBLE, tests: list[dict[str, Any]] | None = None, **data: Any) -> Item:
    data = {"tests": tests or CALLS, "entry_point": "f", "limits": {"seconds": 0.8, "total_seconds": 2.0}, **data}
    return Item(id="c-1", domain="c", prompt="?", answer=answer, verifier="code_tests", data=data)


@pytest.mark.parametrize(
    ("response", "expected", "score"),
    [
        (DOUBLE, "right", 1.0),
        ("```python\n" + DOUBLE + "```\nThat is it.", "right", 1.0),
        ("First:\n```python\ndef f(x): pass\n```\nNo:\n```python\n" + DOUBLE + "```", "right", 1.0),
        ("<think>```python\nbad(\n```</think>\n```py\n" + DOUBLE + "```\n```\n$ run\n```", "right", 1.0),
        ("<answer>\n" + DOUBLE + "</answer>", "right", 1.0),
        ("def f(x):\n    return x + x  # #### a comment\n", "right", 1.0),
        ("f = lambda x: 2 * x if x == 1 else 0", "wrong", 1 / 3),
        ("def f(x):\n    return [3, 3] if x == [3] else 1 / 0", "wrong", 1 / 3),
        ("def f(x):\n    return x * 3", "wrong", 0.0),
        ("def g(x): return 2 * x", "wrong", 0.0),
        ("def f(x) return", "wrong", 0.0),
        ("no program at all", "wrong", 0.0),
        ("", "wrong", 0.0),
    ],
)
def test_the_score_is_the_share_of_tests_passed(response: str, expected: str, score: float) -> None:
    verdict = verify(program_item(), response)
    assert verdict.outcome.value == expected, verdict
    assert verdict.score == pytest.approx(score)


@pytest.mark.parametrize(
    "program",
    [
        # nothing that a program can do to itself, to Python or to the channel makes another value of its answer
        "class E:\n    def __eq__(self, o): return True\n    __hash__ = None\ndef f(x): return E()",
        "class L(list):\n    def __eq__(self, o): return True\n    def __len__(self): return 2\ndef f(x): return L()",
        "class S(str):\n    def __eq__(self, o): return True\ndef f(x): return S('z')",
        "import builtins\nbuiltins.all = lambda *a: True\nbuiltins.len = lambda *a: 0\ndef f(x): return None",
        "import json\njson.loads = lambda *a: 2\njson.dumps = lambda *a, **k: '[2,[3,3],\"aa\"]'\ndef f(x): return 0",
        "import os, sys\nsys.exit(0)",
        "import os\nos._exit(0)",
        "def f(x):\n    import os\n    os._exit(0)",
        "def f(x):\n    raise SystemExit(0)",
        "print('3 of 3 tests passed')\nprint('{\"value\": 2}')\ndef f(x): return None",
        "import os\n[os.write(n, b'V\\0\\0\\0\\4true') for n in (3, 4, 5)]\nos._exit(0)",
        "import sys\nsys.modules['components.tasks.scoring.program'].call = None\ndef f(x): return True",
        "import gc\nfound = [o for o in gc.get_objects() if isinstance(o, dict) and 'expected' in o]\n"
        "def f(x): return found[0]['expected'] if found else None",
        "import inspect\ndef f(x):\n    for s in inspect.stack():\n"
        "        if 'expected' in s.frame.f_locals: return s.frame.f_locals['expected']",
        "def f(x):\n    while True: pass",
        "def f(x): return [0] * (10 ** 10)",
        "def f(x): print('x' * 10 ** 7)",
        "import os\nwhile True: os.fork()",
        "def f(x): return float('nan')",
        "def f(x):\n    x = [2]\n    x.append(x)\n    return x",
    ],
)
def test_a_program_that_cheats_or_breaks_is_wrong_and_never_left_out(program: str) -> None:
    verdict = verify(program_item(), program)
    assert verdict.outcome is Outcome.WRONG, verdict
    assert verdict.score == 0.0


METHOD = "class Solution:\n    def f(self, x: List[int]) -> Optional[int]:\n        return 2 * x\n"


@pytest.mark.parametrize(
    "response",
    [
        "```python\n" + DOUBLE + "```\nExample of use:\n```python\nprint(f(3))\n```",
        "```python\n" + DOUBLE + "```\n```python\ndef test_f():\n    assert f(1) == 2\n```",
        "```\n" + DOUBLE + "```\n```python\nf(1)  # 2\n```",
        "~~~python\n" + DOUBLE + "~~~",
        "````python\n" + DOUBLE + "````",
        "1. So:\n   ```python\n   def f(x):\n       return 2 * x\n   ```",
        "```python\n" + METHOD + "```",
        "```python\n" + METHOD + "```\n```python\nprint(Solution().f(3))\n```",
        "from __future__ import annotations\n" + DOUBLE,
        "def f(x: List[int]) -> Dict[str, int]:\n    return math.prod([2]) * x",
        DOUBLE + "print(f(3))\nexit()",
        "import sys\n" + DOUBLE + "sys.exit(0)",
        DOUBLE + "if __name__ == '__main__':\n    raise SystemExit(3)",
        "<think>```python\nbad(\n```</think><answer>\n```python\n" + DOUBLE + "```\n</answer>",
    ],
)
def test_the_block_that_defines_the_entry_point_is_the_program(response: str) -> None:
    verdict = verify(program_item(), response)
    assert verdict.right, verdict


@pytest.mark.parametrize(
    "response",
    [
        "<think>\n```python\n" + DOUBLE + "```\n",
        "<think>\n```python\n" + DOUBLE + "```\n</think>\nI give up.",
        "import sys\n" + DOUBLE + "sys.exit(3)",
        "class Solution:\n    def g(self, x):\n        return 2 * x",
        "class Other:\n    def f(self, x):\n        return 2 * x",
    ],
)
def test_no_program_outside_the_thought_or_none_that_ends_well_is_wrong(response: str) -> None:
    assert verify(program_item(), response).outcome is Outcome.WRONG


def test_names_that_judges_import_define_no_entry_point() -> None:
    item = program_item(answer="", tests=[{"args": [[2, 1], 3], "expected": [1, 2]}], entry_point="accumulate")
    assert "defines no accumulate" in verify(item, "x = 1").detail


@pytest.mark.parametrize(
    "response",
    [
        "```python\nprint(sum(map(int, input().split())))\n```\nFor instance:\n```python\nprint(3 + 4)\n```",
        "```python\nprint(sum(map(int, input().split())))\nexit()\n```",
        "```python\ndef go():\n    print(sum(map(int, input().split())))\nif __name__ == '__main__':\n    go()\n```",
    ],
)
def test_the_block_that_reads_the_input_is_the_program_of_runs(response: str) -> None:
    verdict = verify(program_item(answer="", tests=ECHO, entry_point=""), response)
    assert verdict.right, verdict


@pytest.mark.parametrize(
    ("tests", "problem"),
    [
        (["assert f(1) == 2", "assert f((3,)) == [3, 3]", "assert not f(0)"], ""),
        ('[{"args": [1], "expected": 2}]', ""),
        ("assert f(1) == 2\nassert f('a') == 'aa'", ""),
        (["assert g(1) == 2"], "data.tests[0] calls g, and not f"),
        (["assert f(g(1)) == 2"], "not of the form `assert f(2) == 4`"),
        (["import os"], "not of the form"),
        (["assert f(1) == __import__('os').getpid()"], "not of the form"),
        ("none", "data.tests"),
    ],
)
def test_tests_may_be_written_as_data_sets_write_them(tests: Any, problem: str) -> None:
    answer = "def f(x):\n    return 2 * x if x else False\n"
    verdict = verify(program_item(answer, tests), answer)
    assert (verdict.right, problem in verdict.detail) == (not problem, True), verdict


def test_lines_of_input_may_be_a_list_and_a_truth_is_no_count() -> None:
    runs = program_item(answer="", tests=[{"stdin": ["3 4"], "stdout": ["7"]}], entry_point="")
    assert verify(runs, "print(sum(map(int, input().split())))").right
    truth = program_item(answer="", tests=[{"args": [1], "expected": True}])
    assert verify(truth, "def f(x): return x == 1").right and not verify(truth, DOUBLE.replace("2", "1")).right


def test_one_test_that_does_not_end_costs_the_others_nothing() -> None:
    verdict = verify(program_item(), "def f(x):\n    while x == [3]: pass\n    return 2 * x")
    assert verdict.outcome is Outcome.WRONG
    assert verdict.score == pytest.approx(2 / 3)
    assert "test 2 ran out of time" in verdict.detail


def test_the_time_for_all_tests_is_bounded() -> None:
    tests = [{"args": [n], "expected": 2 * n} for n in range(40)]
    item = program_item(tests=tests, limits={"seconds": 0.4, "total_seconds": 1.0})
    verdict = verify(item, "def f(x):\n    while x: pass\n    return 0")
    assert verdict.outcome is Outcome.WRONG
    assert verdict.score == pytest.approx(1 / 40)
    slow = "import time\nif False: pass\ndef f(x):\n    time.sleep(9)"
    assert verify(item, slow).score == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer": "def f(x): return 3 * x"}, "the reference fails its own tests: 0 of 3"),
        ({"answer": "def f(x: return"}, "the reference fails its own tests"),
        ({"tests": [{"args": [1]}]}, "one of expected, stdout and rows"),
        ({"tests": [{"args": [1], "expected": 2}, {"stdin": "", "stdout": ""}]}, "of one kind"),
        ({"tests": [{"argss": [1], "expected": 2}]}, "data.tests[0].argss"),
        ({"tests": "none"}, "data.tests"),
        ({"entry_point": ""}, "entry_point"),
        ({"entry_point": "f(1) or g"}, "entry_point"),
        ({"language": "cobol"}, "none of python, c"),
        ({"language": "sql"}, "no tests of kind 'call'"),
        ({"limits": {"seconds": -1}}, "limits.seconds"),
    ],
)
def test_items_that_make_no_sense_are_broken(changes: dict[str, Any], message: str) -> None:
    verdict = verify(program_item(**changes), DOUBLE)
    assert verdict.outcome is Outcome.FAILED
    assert "broken item" in verdict.detail and message in verdict.detail, verdict.detail


def test_a_language_that_is_not_installed_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages.shutil, "which", lambda name: None)
    verdict = verify(program_item(tests=ECHO, language="c"), "int main(void) { return 0; }")
    assert verdict.outcome is Outcome.FAILED
    assert "needs gcc: install Debian's gcc" in verdict.detail


@pytest.mark.parametrize(
    ("program", "score"),
    [
        ("a, b = map(int, input().split())\nprint(a + b)", 1.0),
        ("import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit(0)", 1.0),
        ("if __name__ == '__main__':\n    print(sum(map(int, open(0).read().split())), '\\n')", 1.0),
        ("print(7)", 0.5),
        ("print(7)\nimport sys\nsys.exit(3)", 0.0),
        ("print(7)\nprint(2)", 0.0),
        ("import os\nos._exit(0)", 0.0),
    ],
)
def test_programs_that_read_and_print(program: str, score: float) -> None:
    assert verify(program_item(answer="", tests=ECHO), program).score == score


C_SUM = '#include <stdio.h>\nint main(void) { int a, b; scanf("%d %d", &a, &b); printf("%d\\n", a + b); return 0; }'


@needs_gcc
@pytest.mark.parametrize(
    ("program", "score"),
    [
        (f"```c\n{C_SUM}\n```", 1.0),
        ('#include <stdio.h>\nint main(void) { puts("7"); return 0; }', 0.5),
        ("int main(void) { for (;;); }", 0.0),
        ("int main(void) { *(volatile int *)0 = 1; }", 0.0),
        ("int main(void) { return", 0.0),
        ('#include "/etc/passwd"\nint main(void) { return 0; }', 0.0),
    ],
)
def test_c(program: str, score: float) -> None:
    item = program_item(answer=C_SUM, tests=ECHO, language="c", limits={"seconds": 1.0, "total_seconds": 3.0})
    verdict = verify(item, program)
    assert verdict.score == score and not verdict.failed, verdict


@needs_node
@pytest.mark.parametrize(
    ("program", "score"),
    [
        ("function f(x) { return Array.isArray(x) ? [...x, ...x] : x + x }", 1.0),
        ("const f = x => { console.log('noise'); return x + x }", 2 / 3),
        ("function f(x) { throw new Error('no') }", 0.0),
        ("process.exit(0); function f(x) {}", 0.0),
        ('JSON.stringify = () => \'[{"value":2},{"value":2},{"value":2}]\'; function f(x) {}', 1 / 3),
        ("function f(x) { for (;;); }", 0.0),
    ],
)
def test_javascript_calls(program: str, score: float) -> None:
    item = program_item(answer="", language="javascript", limits={"seconds": 2.0, "total_seconds": 3.0})
    verdict = verify(item, f"```js\n{program}\n```")
    assert verdict.score == pytest.approx(score) and not verdict.failed, verdict


SETUP = "create table t(a, b); insert into t values (1, 'x'), (2, 'y'), (3, 'y')"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select b, count(*) from t group by b", "right"),
        ("select b, count(*) from t group by b order by b desc", "right"),
        ("with c as (select b from t) select b, count(*) from c group by b", "right"),
        ("select 'x', 1 union select 'y', 2", "right"),  # a query of constants is one: hold tests back by more setups
        ("select b from t", "wrong"),
        ("delete from t", "wrong"),
        ("create table u(a)", "wrong"),
        ("attach '/tmp/x.db' as y", "wrong"),
        ("pragma writable_schema = 1", "wrong"),
        ("select load_extension('x')", "wrong"),
        ("select 1; select 2", "wrong"),
        ("with recursive n(i) as (select 1 union all select i + 1 from n) select count(*), 1 from n", "wrong"),
        ("select randomblob(1000000000), 1", "wrong"),
    ],
)
def test_sql_reads_and_nothing_else(query: str, expected: str) -> None:
    tests = [{"setup": SETUP, "rows": [["x", 1], ["y", 2]]}]
    verdict = verify(program_item(answer="select b, count(*) from t group by b", tests=tests, language="sql"), query)
    assert verdict.outcome.value == expected, verdict


def test_many_programs_are_judged_each_by_itself(tmp_path: Path) -> None:
    marks = [f"import builtins\nbuiltins.mark = {n}\ndef f(x): return 2 * x" for n in range(3)]
    looks = "import builtins\ndef f(x): return getattr(builtins, 'mark', None) or 2 * x"
    verdicts = verify_all((program_item(), text) for text in (*marks, looks))
    assert [verdict.right for verdict in verdicts] == [True] * 4


@pytest.mark.parametrize(
    "program",
    [
        "def f(x):\n    return '\ud800'",
        "x = 1\x00",
        "```python\n" * 3_000,
        "def f(x): return 10 ** 5000",
        "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(x): return f(x)",
        "def f(x):\n    import ctypes\n    ctypes.string_at(0)",
        "import os\nos.kill(os.getppid(), 9)\nos.kill(-1, 9)\ndef f(x): return 2 * x",
        "import os\nos.close(3)\ndef f(x): return 2 * x",
        "import os, time\nif os.fork() == 0: time.sleep(60)\ndef f(x): return 3",
    ],
)
def test_no_program_makes_its_verdict_fail(program: str) -> None:
    assert verify(program_item(), program).outcome is Outcome.WRONG
