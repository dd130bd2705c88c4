"""Listings of a bucket, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from components.runtime.store.s3_calls import S3Calls

KEYS_IN_A_PAGE = 1000


def list_pages(calls: S3Calls, prefix: str, **options: Any) -> Iterator[dict[str, Any]]:
    """Yield the responses of ListObjectsV2 for keys that start with `prefix`."""
    request: dict[str, Any] = {"Bucket": calls.bucket, "Prefix": prefix, "MaxKeys": KEYS_IN_A_PAGE, **options}
    while True:
        page = calls.run(lambda client: client.list_objects_v2(**request))
        yield page
        if not page.get("IsTruncated"):
            return
        request["ContinuationToken"] = page["NextContinuationToken"]


def list_names(calls: S3Calls, prefix: str) -> Iterator[str]:
    """Yield, page by page, the names of objects and folders in the prefix's folder that match its last part."""
    cut = len(prefix.rpartition("/")[0]) + 1 if "/" in prefix else 0
    for page in list_pages(calls, prefix, Delimiter="/"):
        found = [item["Key"] for item in page.get("Contents", [])]
        found += [item["Prefix"].rstrip("/") for item in page.get("CommonPrefixes", [])]
        yield from sorted(name[cut:] for name in found)
