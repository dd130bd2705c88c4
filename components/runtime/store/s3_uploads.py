"""Multipart uploads that were never completed: their parts cost money and appear in no object listing."""

from __future__ import annotations

from typing import Any

from components.runtime.store.blobs import Blob
from components.runtime.store.s3_calls import S3Calls

MARK = "upload:"


def unfinished_uploads(calls: S3Calls, prefix: str) -> list[Blob]:
    """Return the uploads below a prefix of the bucket, each as a blob whose key holds upload id and object key."""
    request: dict[str, Any] = {"Bucket": calls.bucket, "Prefix": prefix}
    found = []
    while True:
        page = calls.run(lambda client, request=request: client.list_multipart_uploads(**request))
        for item in page.get("Uploads", []):
            begun = item["Initiated"].timestamp()
            found.append(Blob(f"{MARK}{item['UploadId']} {item['Key']}", 0, begun, begun))
        if not page.get("IsTruncated"):
            return found
        request |= {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}


def is_upload(blob: Blob) -> bool:
    """Return whether a blob represents an unfinished upload."""
    return blob.key.startswith(MARK)


def abort_upload(calls: S3Calls, blob: Blob) -> None:
    """Remove the parts of an unfinished upload."""
    upload, _, key = blob.key.removeprefix(MARK).partition(" ")
    request = {"Bucket": calls.bucket, "Key": key, "UploadId": upload}
    calls.run(lambda client: client.abort_multipart_upload(**request))
