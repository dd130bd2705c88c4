"""Calls of users' functions: awaited where they are async, and never the end of the process."""

from __future__ import annotations

import asyncio
import sys

import pytest

from components.contract.operator_files.calling import finished


async def _doubled(values: list[int]) -> list[int]:
    async def double(value: int) -> int:
        await asyncio.sleep(0)
        return 2 * value

    return list(await asyncio.gather(*map(double, values)))


def test_an_async_function_is_awaited_also_where_a_loop_runs() -> None:
    assert finished(lambda: _doubled([1, 2])) == [2, 4]

    async def within() -> list[int]:
        return list(finished(lambda: _doubled([3])))

    assert asyncio.run(within()) == [6]


@pytest.mark.parametrize("is_async", [False, True])
def test_sys_exit_is_an_error_of_the_function(is_async: bool) -> None:
    async def later() -> None:
        sys.exit(3)

    with pytest.raises(RuntimeError, match=r"called sys.exit\(3\)"):
        finished(later if is_async else lambda: sys.exit(3))
