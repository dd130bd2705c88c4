"""The fork server's first import: Ctrl-C is the engine's to handle, also while the server still imports libraries."""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
