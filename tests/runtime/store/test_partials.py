"""Partial checkpoints: the newest whole one is resumed from, whatever happened to the others."""

from __future__ import annotations

import logging

import pytest


def save(store, folder, *steps):
    for step in steps:
        store.save_partial("fp", step, folder({"state": f"at {step}".encode(), "rng": b"r"}))


def loaded(store):
    found = store.load_partial("fp")
    return found and (found[0], (found[1] / "state").read_bytes().decode())


def trees(backend):
    return sorted({key.split("/")[2] for key in backend.stored() if key.startswith("partial/fp/")})


def test_nothing_saved_is_a_fresh_start(store):
    assert store.load_partial("fp") is None


def test_the_newest_is_loaded_and_two_are_kept(backend, folder):
    save(backend.store, folder, 1, 2, 10, 9_999_999)
    assert loaded(backend.store) == (9_999_999, "at 9999999")
    assert [int(tree.split("-")[0]) for tree in trees(backend)] == [10, 9_999_999]


def test_fingerprints_do_not_mix(store, folder):
    save(store, folder, 5)
    assert store.load_partial("other") is None
    assert store.load_partial("f") is None


@pytest.mark.parametrize("part", ["files/state", "files/rng", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_a_damaged_one_is_reported_and_the_older_one_used(backend, folder, caplog, part, damage):
    save(backend.store, folder, 1, 2)
    key = f"partial/fp/{trees(backend)[-1]}/{part}"
    if damage == "flip":
        backend.flip(key)
    else:
        backend.tamper(key, None)

    with caplog.at_level(logging.WARNING):
        assert loaded(backend.store) == (1, "at 1")
    if (part, damage) != ("manifest.json", "remove"):  # without a manifest it was never whole: nothing to report
        assert part.removeprefix("files/") in caplog.text

    save(backend.store, folder, 2)
    assert loaded(backend.store) == (2, "at 2")


def test_saving_never_removes_what_it_just_saved(backend, folder):
    save(backend.store, folder, 1, 3, 4)
    for tree in trees(backend)[-2:]:
        backend.flip(f"partial/fp/{tree}/manifest.json")
    save(backend.store, folder, 2)
    assert loaded(backend.store) == (2, "at 2")


def test_saving_the_same_step_again_is_idempotent(backend, folder):
    save(backend.store, folder, 1, 2)
    before = backend.stored()
    save(backend.store, folder, 2)
    assert backend.stored() == before


def test_dropping_leaves_nothing(backend, folder):
    save(backend.store, folder, 1, 2)
    backend.store.drop_partial("fp")
    assert backend.store.load_partial("fp") is None
    assert backend.stored() == []
