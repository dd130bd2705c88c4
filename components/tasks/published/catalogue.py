"""The published data sets that recipes may name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.tasks.item import UNLABELLED
from components.tasks.published import chats, maths, programs, questions
from components.tasks.published.reading import Reader

MATHS = ("math_verify", "numeric", "exact")


@dataclass(frozen=True)
class PublishedSet:
    """Where a set lies on the Hugging Face hub, what its authors allow, and how its rows are read."""

    hub: str
    read: Reader
    verifiers: tuple[str, ...]
    """What may judge its rows; the first one unless the recipe names another."""
    license: str | None
    """As its card says; None where the card says nothing."""
    subset: str | None = None
    splits: tuple[str, ...] = ("train",)
    """The first one unless the recipe names another."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The data files of each split, where the repository needs a script that the hub's library no longer runs."""
    format: str = ""
    """Of these files, as the library names its builders."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """The file of each split in the set's own folder, where its rows need the databases that lie there."""


PUBLISHED: Mapping[str, PublishedSet] = {
    "gsm8k": PublishedSet("openai/gsm8k", maths.gsm8k, MATHS, "mit", subset="main", splits=("train", "test")),
    "math": PublishedSet(
        "DigitalLearningGmbH/MATH-lighteval", maths.competition, MATHS, "mit", splits=("train", "test")
    ),
    "dapo_math": PublishedSet("BytedTsinghua-SIA/DAPO-Math-17k", maths.dapo, MATHS, "apache-2.0"),
    "numina_math": PublishedSet("AI-MO/NuminaMath-1.5", maths.numina, MATHS, "apache-2.0"),
    "skywork_or1_math": PublishedSet("Skywork/Skywork-OR1-RL-Data", maths.skywork, MATHS, None, splits=("math",)),
    "apps": PublishedSet(
        "codeparrot/apps",
        programs.coding,
        ("code_tests",),
        "mit",
        splits=("train", "test"),
        files={"train": "train.jsonl", "test": "test.jsonl"},
        format="json",
    ),
    "taco": PublishedSet(
        "BAAI/TACO",
        programs.coding,
        ("code_tests",),
        "apache-2.0",
        splits=("train", "test"),
        files={"train": "train/*.arrow", "test": "test/*.arrow"},
        format="arrow",
    ),
    "spider": PublishedSet(
        "xlangai/spider",
        questions.spider,
        ("code_tests",),
        "cc-by-sa-4.0",
        splits=("train", "validation"),
        tables={"train": "train_spider.json", "validation": "dev.json"},
    ),
    "ultrafeedback": PublishedSet(
        "HuggingFaceH4/ultrafeedback_binarized",
        chats.ultrafeedback,
        (UNLABELLED,),
        "mit",
        splits=("train_prefs", "test_prefs", "train_sft", "test_sft"),
    ),
}
