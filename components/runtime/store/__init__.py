"""The store: immutable artifacts, write-once records and partial checkpoints, in a directory or on S3."""

from components.runtime.store.blobs import StoreLocked
from components.runtime.store.opening import open_store
from components.runtime.store.store import Store

__all__ = ["Store", "StoreLocked", "open_store"]
