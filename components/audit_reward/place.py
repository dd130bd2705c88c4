"""Where the page lies: its bytes count for fingerprints."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).with_name("audit.html")
