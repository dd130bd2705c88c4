"""A process that is killed while its sandbox starts: the arguments are a folder that marks it, and seconds to live."""

from __future__ import annotations

import os
import signal
import sys
import time

from components.runtime.sandbox.fork_server import ForkServer
from components.runtime.sandbox.launch import launch

if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    server = ForkServer(launch("bubblewrap", (), ()))
    time.sleep(float(sys.argv[2]))
    os.kill(os.getpid(), signal.SIGKILL)
