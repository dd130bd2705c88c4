"""Source parsed in threads: what CPython 3.11.7 gets wrong, and what holds on every interpreter."""

from __future__ import annotations

import ast
import gc
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from components.contract.errors import InputError
from components.contract.python_text import parse, parse_expression, parse_module

SOURCE = "\n".join(f"def f{at}(a, b={{'k': [1, (2, 3)]}}):\n    return a + b[{at}] * f(x=a)" for at in range(60))
EXPRESSION = " + ".join(f"f(n{index}, [1, {{2: 3}}])" for index in range(60))


@pytest.fixture
def eager_collector() -> Iterator[None]:
    """Collect garbage after every few objects, and let other threads run in the middle of each collection."""

    def give_way(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    before, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(3)
    sys.setswitchinterval(1e-6)
    gc.callbacks.append(give_way)
    try:
        yield
    finally:
        gc.callbacks.remove(give_way)
        gc.set_threshold(*before)
        sys.setswitchinterval(interval)


def test_threads_parse_at_once(eager_collector: None) -> None:
    """Without the lock this ends in "AST constructor recursion depth mismatch" on CPython 3.11.7 at the first try."""
    expected = ast.dump(ast.parse(SOURCE)), ast.dump(ast.parse(EXPRESSION, mode="eval").body)
    with ThreadPoolExecutor(8) as pool:
        rounds = pool.map(lambda _: (ast.dump(parse_module(SOURCE)), ast.dump(parse_expression(EXPRESSION))), range(24))
        assert set(rounds) == {expected}


def test_nothing_is_collected_while_a_thread_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason for the mismatch: a collection in the middle of a parse runs Python code, and so other threads."""
    states: list[bool] = []
    real = ast.parse
    monkeypatch.setattr(ast, "parse", lambda *given, **named: (states.append(gc.isenabled()), real(*given, **named))[1])
    parse_module("a = 1")
    with pytest.raises(SyntaxError):
        parse_expression("a = = 1")
    assert states == [False, False] and gc.isenabled()
    gc.disable()
    try:
        parse_module("a = 1")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_parse_that_fails_lets_the_next_one_begin() -> None:
    with pytest.raises(InputError, match=r"^mine.py:1: not Python: "):
        parse("def (", "mine.py")
    done = threading.Event()
    thread = threading.Thread(target=lambda: (parse_module("a = 1"), done.set()))
    thread.start()
    thread.join(5)
    assert done.is_set()
