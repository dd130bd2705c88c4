"""A verifier that kills its process where a row has a flag that is not there yet."""

import os
import signal
from pathlib import Path


def check(response, answer, flag, **columns):
    """Return whether a response is the answer."""
    if flag and not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return response == answer
