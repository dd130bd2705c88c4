"""What the containers and pods of all engines have in common: images, user, sizes and labels."""

from __future__ import annotations

import math

USER = 10001
"""User of the images in infra/images; no container runs as root."""
IMAGES = {"cpu": "POSTTRAIN_IMAGE_CPU", "gpu": "POSTTRAIN_IMAGE_GPU"}
"""Kind of image -> variable that names it."""
MAX_LABEL = 63


def image_kind(gpus: int) -> str:
    """Return the image a job needs: without GPUs the small one does, and has what every component needs there."""
    return "gpu" if gpus else "cpu"


def gib(size: float) -> str:
    """Return a size in GiB as Kubernetes writes it."""
    return f"{size:g}Gi" if size == int(size) else f"{math.ceil(size * 1024)}Mi"


def label_value(value: object) -> str:
    """Return a value valid in a Kubernetes label; invalid characters become '-'."""
    text = (letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "-" for letter in str(value))
    return "".join(text)[:MAX_LABEL].strip("-_.")
