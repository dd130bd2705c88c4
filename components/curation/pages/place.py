"""Where the card's page lies: its bytes count for fingerprints."""

from __future__ import annotations

from pathlib import Path

CARD = Path(__file__).with_name("card.html")
