"""The slots of tasks: sources of items, demonstrators that solve them, and verifiers that judge responses."""

from __future__ import annotations

from components.contract.slots import Plain, Slot

SOURCE = Slot(
    name="source",
    package=f"{__package__}.sources",
    summary="Where rows come from",
    call="(request: SourceRequest) -> SourceRows",
    first=("file", "hf", "s3", "published", "preferences", "jsonl", "parquet", "artifact"),  # data that people have
)
VERIFIER = Slot(
    name="verifier",
    package=f"{__package__}.verifiers",
    summary="Whether a response is right",
    call="(item: Item, response: str) -> Verdict",
    plain=Plain(
        call="(response, answer, **columns) -> True, False or a number from 0 to 1",
        takes="response",
        adapter="components.tasks.plain_verifier:adapt",
        also="solution_str",
    ),
)
DEMONSTRATOR = Slot(
    name="demonstrator",
    package=f"{__package__}.demonstrators",
    summary="What writes a response to an item, or all turns of a conversation",
    call="(item: Item, rng: Random) -> str, or a tuple of them, one for each turn that the policy writes",
)
