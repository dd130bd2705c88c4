"""Paths shared by both backends, or by both sides of a sandbox."""

from __future__ import annotations

PRIVATE = "/tmp"
"""Where a run under bubblewrap may write."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""All devices that a run may open."""
