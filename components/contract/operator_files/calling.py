"""Calls of plain functions in users' files: async ones are awaited, and sys.exit ends the call, not the process."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def finished(call: Callable[[], Any]) -> Any:
    """Return what a call returns, awaited if it can be; raise RuntimeError where it raises SystemExit.

    The error keeps the traceback, so that messages name the line of the user's file.
    """
    try:
        returned = call()
        return _awaited(returned) if inspect.isawaitable(returned) else returned
    except SystemExit as error:
        raise RuntimeError(f"called sys.exit({error.code!r})").with_traceback(error.__traceback__) from None


def _awaited(awaitable: Awaitable[Any]) -> Any:
    async def wait() -> Any:
        return await awaitable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as pool:  # this thread's loop cannot wait for itself
        return pool.submit(asyncio.run, wait()).result()
