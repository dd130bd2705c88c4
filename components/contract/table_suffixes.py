"""Suffixes of files that hold rows: what stages and sources read."""

from __future__ import annotations

from pathlib import Path

JSONL = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson", ".ndjson.gz", ".ndjson.zst")
JSON = (".json", ".json.gz", ".json.zst")
DELIMITED = (".csv", ".csv.gz", ".csv.zst", ".tsv", ".tsv.gz", ".tsv.zst")
PARQUET = (".parquet",)
ARROW = (".arrow", ".feather", ".ipc")
TABLES = (*JSONL, *JSON, *DELIMITED, *PARQUET, *ARROW)


def table_suffix(path: Path) -> str | None:
    """Return the suffix that tells a file's format, in small letters; None for a file that holds no rows."""
    return next(
        (suffix for suffix in sorted(TABLES, key=len, reverse=True) if path.name.lower().endswith(suffix)), None
    )
