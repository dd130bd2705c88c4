"""Job descriptions as files, passed to a stage's process by a container, a rank or a person."""

from __future__ import annotations

from pydantic import ValidationError

from components.contract.errors import InputError, schema_problems
from components.contract.job import Job
from components.contract.small_files import read_small_file

MAX_BYTES = 4 << 20
MAX_PROBLEMS = 5


def read_job(file: str) -> Job:
    """Return the job that a file, or standard input for "-", describes; raise InputError with the problem."""
    try:
        return Job.model_validate_json(read_small_file(file, MAX_BYTES))
    except ValidationError as error:
        problems = schema_problems(error, whole="file", most=MAX_PROBLEMS)
        raise InputError(f"job description {file}: {problems}") from None
    except ValueError as error:
        raise InputError(f"job description {file}: {error}") from None
