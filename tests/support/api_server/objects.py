"""Objects as etcd and the API server keep them: versions, conflicts, preconditions, watches that expire, owners."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Plural, namespace, name."""


class Refused(Exception):
    """An answer that is a Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason

    @property
    def status(self) -> Object:
        """Return the Status object of the answer."""
        said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {}}
        return {**said, "code": self.code, "reason": self.reason, "message": str(self)}


@dataclass
class Objects:
    """All objects by kind and name, and what happened to them."""

    now: Callable[[], str]
    kept: dict[Key, Object] = field(default_factory=dict)
    history: list[tuple[int, str, Key, Object]] = field(default_factory=list)
    horizon: int = 0
    """Version before which no watch can begin any more."""
    _versions: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def create(self, plural: str, body: Object) -> Object:
        """Store a new object; refuse a name that exists."""
        metadata = body["metadata"]
        key = (plural, metadata["namespace"], metadata["name"])
        if key in self.kept:
            raise Refused(409, "AlreadyExists", f'{plural} "{key[2]}" already exists')
        own = {"uid": f"uid-{next(self._versions)}", "creationTimestamp": self.now()}
        self._store("ADDED", key, {**copy.deepcopy(body), "metadata": {**copy.deepcopy(metadata), **own}})
        return self.read(*key)

    def read(self, plural: str, namespace: str, name: str) -> Object:
        """Return an object; refuse one that is not there."""
        found = self.kept.get((plural, namespace, name))
        if found is None:
            raise Refused(404, "NotFound", f'{plural} "{name}" not found')
        return copy.deepcopy(found)

    def list(self, plural: str, namespace: str) -> list[Object]:
        """Return the objects of a kind in a namespace."""
        return [copy.deepcopy(item) for key, item in self.kept.items() if key[:2] == (plural, namespace)]

    def replace(self, plural: str, body: Object) -> Object:
        """Write an object; refuse one that was changed since its version."""
        metadata = body["metadata"]
        key = (plural, metadata["namespace"], metadata["name"])
        before = self.read(*key)["metadata"]
        given = (metadata.get("resourceVersion"), metadata.get("uid"))
        if given != (before["resourceVersion"], before["uid"]):
            raise Refused(409, "Conflict", f'{plural} "{key[2]}": the object has been modified')
        self._store("MODIFIED", key, copy.deepcopy(body))
        return self.read(*key)

    def change(self, key: Key, **fields: Any) -> None:
        """Change an object as a controller does."""
        if key in self.kept:
            self._store("MODIFIED", key, {**copy.deepcopy(self.kept[key]), **copy.deepcopy(fields)})

    def delete(self, plural: str, namespace: str, name: str, options: Object | None = None) -> Object:
        """Delete an object with what it owns; refuse if a precondition does not hold."""
        found = self.read(plural, namespace, name)
        for word, wanted in ((options or {}).get("preconditions") or {}).items():
            if found["metadata"].get(word) != wanted:
                raise Refused(409, "Conflict", f"the {word} in the precondition does not match")
        del self.kept[plural, namespace, name]
        found["metadata"]["resourceVersion"] = str(next(self._versions))
        self.history.append((int(found["metadata"]["resourceVersion"]), "DELETED", (plural, namespace, name), found))
        uid = found["metadata"]["uid"]
        for key in [key for key, item in self.kept.items() if uid in owners(item)]:
            if key in self.kept:
                self.delete(*key)
        return found

    def since(self, version: int, plural: str, namespace: str, name: str) -> list[tuple[str, Object]]:
        """Return what happened to an object after a version; refuse one that is too old."""
        if version < self.horizon:
            raise Refused(410, "Expired", f"too old resource version: {version} ({self.horizon})")
        key = (plural, namespace, name)
        return [(word, item) for at, word, where, item in self.history if at > version and where == key]

    def expire(self) -> None:
        """Forget the history: watches from before begin anew."""
        self.horizon = next(self._versions)
        self.history.clear()

    def version(self) -> str:
        """Return a new version, as bookmarks have it."""
        return str(next(self._versions))

    def _store(self, word: str, key: Key, item: Object) -> None:
        version = next(self._versions)
        item["metadata"]["resourceVersion"] = str(version)
        self.kept[key] = item
        self.history.append((version, word, key, copy.deepcopy(item)))


def owners(item: Object) -> set[str]:
    """Return the uids of an object's owners."""
    return {owner["uid"] for owner in item["metadata"].get("ownerReferences", ())}


def selected(item: Object, selector: str) -> bool:
    """Return whether an object has the labels of a selector of equalities."""
    labels = item["metadata"].get("labels", {})
    parts = (part.partition("=") for part in filter(None, selector.split(",")))
    return all(labels.get(name) == value for name, _, value in parts)
