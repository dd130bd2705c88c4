"""posttrain stage: run one job from its description file, as a container does."""

from __future__ import annotations

import argparse


def stage(arguments: argparse.Namespace) -> int:
    """Run the job and return its exit code; progress goes to stdout, one JSON object per line."""
    from components.runtime.job.job_file import read_job

    job = read_job(arguments.file)
    from components.runtime.job.process import execute
    from components.runtime.job.progress import json_lines

    return execute(job, json_lines())
