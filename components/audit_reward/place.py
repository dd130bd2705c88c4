"""Where the page lies, whose bytes count for fingerprints, and what the audit's file is called."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).with_name("audit.html")
AUDIT = "audit.json"
"""Who earned what, in output `report`."""
