"""Near-duplicate removal against datatrove's MinHash, on the same rows and one core; and what it holds in memory.

    python -m tests.benchmarks.bench_near_duplicates [--rows 20000] [--words 100] [--peer-rows 20000] [--json FILE]

Rows are random words of a long-tailed vocabulary; a tenth are earlier rows with 3 of 100 words changed. The peer gets
the same n-grams and bands, xxhash, and in the place of spaCy a tokenizer that only splits at white space; its four
steps run in this process, one after another, on files of a scratch folder. Seconds are of the processor. The peer takes
pairs that share a band for duplicates; we compare each pair's shingles too, and one row at a time, since a later check
may drop it.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.curation.candidate import Candidate
from components.curation.operators.dedup import NearDuplicates
from components.curation.similarity.minhash import Bands
from components.curation.similarity.near_config import NearConfig
from tests.benchmarks.script import run_script

CONFIG = NearConfig()
COPIES, CHANGED = 0.1, 0.03
VOCABULARY = 200_000
LETTERS = str.maketrans("0123456789", "abcdefghij")
"""The peer takes all numbers for the same word."""


def compare(rows: int, words: int, peer_rows: int) -> dict[str, Any]:
    """Return rows a second of both, rows kept and planted copies, and megabytes for each million rows of ours."""
    before = _peak()
    ours = _timed(lambda: _removed_by_us(rows, words), rows)
    ours["peak_mb_above_start"] = round((_peak() - before) / 1e3, 1)
    peer = _timed(lambda: _removed_by_datatrove(peer_rows, words), peer_rows)
    ratio = ours["rows_per_second"] / peer["rows_per_second"]
    return {"words": words, "posttrain": ours, "datatrove": peer, "ratio": round(ratio, 2)}


def _timed(work: Callable[[], tuple[float, int]], rows: int) -> dict[str, Any]:
    seconds, removed = work()
    return {"rows": rows, "rows_per_second": round(rows / seconds, 1), "removed": removed}


def _texts(rows: int, words: int) -> Any:
    rng = random.Random(0)
    vocabulary = [str(int(rng.paretovariate(0.9))).translate(LETTERS) for _ in range(VOCABULARY)]
    kept: list[list[str]] = []
    for _ in range(rows):
        if kept and rng.random() < COPIES:
            drawn = list(rng.choice(kept))
            for _ in range(round(CHANGED * words)):
                drawn[rng.randrange(words)] = rng.choice(vocabulary)
        else:
            drawn = rng.choices(vocabulary, k=words)
            if len(kept) < 10_000:
                kept.append(drawn)
        yield " ".join(drawn)


def _removed_by_us(rows: int, words: int) -> tuple[float, int]:
    check, removed, seconds = NearDuplicates(CONFIG), 0, 0.0
    for number, text in enumerate(_texts(rows, words)):
        draft = Candidate(str(number), "x", 0, text=text)
        started = time.process_time()
        if check.reject(draft):
            removed += 1
        else:
            check.keep(draft)
        seconds += time.process_time() - started
    return seconds, removed


def _removed_by_datatrove(rows: int, words: int) -> tuple[float, int]:
    import xxhash
    from datatrove.data import Document
    from datatrove.pipeline.dedup import minhash
    from datatrove.utils.logging import logger
    from datatrove.utils.word_tokenizers import WordTokenizer

    class Split(WordTokenizer):
        def word_tokenize(self, text: str) -> list[str]:
            return text.split()

        sent_tokenize = span_tokenize = word_tokenize

    logger.remove()
    bands = Bands(threshold=CONFIG.threshold, permutations=CONFIG.permutations)
    config = minhash.MinhashConfig(n_grams=CONFIG.ngram, num_buckets=bands.count, hashes_per_bucket=bands.length)
    documents = [Document(text=text, id=str(number)) for number, text in enumerate(_texts(rows, words))]
    with tempfile.TemporaryDirectory() as folder:
        signatures, buckets, removed = (str(Path(folder) / name) for name in ("signatures", "buckets", "removed"))
        signer = minhash.MinhashDedupSignature(signatures, config, language=Split())
        signer._hash_func = lambda text: xxhash.xxh64_intdigest(text.encode())  # xxhash 4 takes no str
        matcher = minhash.MinhashDedupBuckets(signatures, buckets, config=config)
        cluster = minhash.MinhashDedupCluster(buckets, removed, config=config)
        started = time.process_time()
        signer.run(iter(documents))
        for bucket in range(bands.count):
            matcher.run(None, bucket, bands.count)
        cluster.run(None, 0, 1)
        kept = sum(1 for _ in minhash.MinhashDedupFilter(removed).run(iter(documents)))
        return time.process_time() - started, rows - kept


def _peak() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 if sys.platform == "darwin" else float(peak)


if __name__ == "__main__":
    run_script(__doc__, compare, rows=20_000, words=100, peer_rows=20_000)
