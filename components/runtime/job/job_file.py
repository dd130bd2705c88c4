"""Job descriptions as files: what a container, a rank or a person hands to a stage's process."""

from __future__ import annotations

from pydantic import ValidationError

from components.contract.errors import InputError
from components.contract.job import Job
from components.contract.small_files import read_small_file

MAX_BYTES = 4 << 20
MAX_PROBLEMS = 5


def read_job(file: str) -> Job:
    """Return the job that a file describes, standard input for "-"; raise InputError with what is wrong."""
    try:
        return Job.model_validate_json(read_small_file(file, MAX_BYTES))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        lines = [f"{'.'.join(map(str, item['loc'])) or 'file'}: {item['msg']}" for item in found[:MAX_PROBLEMS]]
        more = [f"and {len(found) - MAX_PROBLEMS} more"] if len(found) > MAX_PROBLEMS else []
        raise InputError(f"job description {file}: {'; '.join([*lines, *more])}") from None
    except ValueError as error:
        raise InputError(f"job description {file}: {error}") from None
