"""Shards in the picture of a run: those of one stage that ended alike are one box."""

from __future__ import annotations

from dataclasses import replace

from pipelines.report.collect import Stage


def folded(stages: list[Stage]) -> list[Stage]:
    """Return the stages with one in the place of all shards of a stage that have the same status."""
    groups: dict[tuple[str, str], list[Stage]] = {}
    for stage in stages:
        groups.setdefault((stage.shard_of or f"{stage.name} ", stage.status), []).append(stage)
    names = {one.name: _name(group) for group in groups.values() for one in group}
    found = [group[0] if not group[0].shard_of else _together(group) for group in groups.values()]
    return [replace(stage, after=list(dict.fromkeys(names.get(name, name) for name in stage.after))) for stage in found]


def _name(group: list[Stage]) -> str:
    """Return a name that tells how many there are, and of two groups of one stage how they ended."""
    first = group[0]
    count = f"{len(group)} shard{'' if len(group) == 1 else 's'}"
    return f"{count} of {first.shard_of}, {first.status}" if first.shard_of else first.name


def _together(group: list[Stage]) -> Stage:
    """Return the shards as one stage, which took the seconds of all of them."""
    first = group[0]
    entry = first.entry and {**first.entry, "seconds": sum(stage.seconds for stage in group)}
    return replace(first, name=_name(group), group=f"{len(group)} x {first.group}", entry=entry)
