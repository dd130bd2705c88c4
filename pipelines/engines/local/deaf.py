"""The fork server's first import: the engine handles Ctrl-C, also while the server still imports libraries."""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
