"""posttrain stage: one job from its description file, as a container runs it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pydantic import ValidationError

from components.contract.errors import InputError
from components.contract.job import Job

MAX_BYTES = 4 << 20


def stage(arguments: argparse.Namespace) -> int:
    """Run the job and return its exit code; progress goes to stdout, one JSON object a line."""
    job = _read(arguments.file)
    from components.runtime.process import execute
    from components.runtime.progress import json_lines

    return execute(job, json_lines())


def _read(file: str) -> Job:
    try:
        data = sys.stdin.buffer.read(MAX_BYTES) if file == "-" else Path(file).read_bytes()[:MAX_BYTES]
        return Job.model_validate_json(data)
    except OSError as error:
        raise InputError(f"job description {file}: {error.strerror}") from None
    except ValidationError as error:
        lines = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'file'}: {item['msg']}" for item in error.errors())
        raise InputError(f"job description {file}: {lines}") from None
