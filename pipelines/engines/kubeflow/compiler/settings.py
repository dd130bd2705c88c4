"""Cluster settings of pipelines, as given, and why some cannot be used. Imports no kfp."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from components.contract.errors import InputError
from components.contract.job import UriRef, alternatives
from pipelines.engines.kubeflow.address import web_address
from pipelines.engines.kubeflow.compiler.refused_fields import task_refusals
from pipelines.engines.shared.container import IMAGES, image_kind
from pipelines.engines.shared.pod import CONFIG_MAP, MLFLOW_SECRET, NAMESPACE, SERVICE_ACCOUNT, PodSettings
from pipelines.plan.local_files import local_files
from pipelines.plan.plan import stage_endpoints
from pipelines.recipe.pods.values import object_name, pinned_image
from pipelines.recipe.pools import Pool
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage

SECRETS = "POSTTRAIN_KUBEFLOW_SECRETS"
CONFIG_MAPS = "POSTTRAIN_KUBEFLOW_CONFIG_MAPS"
DEFAULTS = {
    SECRETS: f"{MLFLOW_SECRET}:MLFLOW_TRACKING_USERNAME+MLFLOW_TRACKING_PASSWORD",
    CONFIG_MAPS: f"{CONFIG_MAP}:POSTTRAIN_STORE+MLFLOW_TRACKING_URI+AWS_REGION",
}
"""What overlays/<cluster>/kubeflow of infra/kubernetes makes; an empty variable means none."""
API = "POSTTRAIN_KUBEFLOW_API"
IN_CLUSTER = "http://ml-pipeline.kubeflow:8888"
LOCAL = "localhost/"
"""Images of this machine alone; no cluster can pull one, and Kubeflow's local runner can."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Sources = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of Secrets or ConfigMaps, each with the keys that become variables of the same names."""


@dataclass(frozen=True)
class Settings:
    """Images, and where variables of the stages come from. Values of secrets are nowhere."""

    images: Mapping[str, str] = field(default_factory=dict)
    """Kind of image (cpu, gpu) -> name@sha256:..."""
    secrets: Sources = ()
    config_maps: Sources = ()
    api: str = IN_CLUSTER
    """Kubeflow Pipelines' address for tasks, which start the parts of a large run."""
    pods: PodSettings = field(default_factory=PodSettings)
    """Namespace and account of the pods of multi-node stages; Kubeflow decides on those of all others."""

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """Return the settings in the variables POSTTRAIN_IMAGE_*, POSTTRAIN_POD_* and POSTTRAIN_KUBEFLOW_*."""
        secrets, config_maps = (_sources(name, environ.get(name, own)) for name, own in DEFAULTS.items())
        pods = PodSettings.read(environ)
        pods = replace(
            pods, secrets=tuple(name for name, _ in secrets), config_maps=tuple(name for name, _ in config_maps)
        )
        for variable, name in ((NAMESPACE, pods.namespace), (SERVICE_ACCOUNT, pods.service_account)):
            _check(variable, name)
        api = web_address(API, environ.get(API) or IN_CLUSTER)
        return cls(pods.images, secrets, config_maps, api, pods)

    def image(self, pool: Pool) -> str:
        """Return the pool's own image, or the GPU image where it has GPUs, and the CPU image where it has none."""
        return pool.image or self.images.get(image_kind(pool.gpus), "")


def refuse(recipe: Recipe, settings: Settings) -> None:
    """Raise InputError with all that keeps stages of a recipe from running as pods, one line for each reason."""
    found = local_file_refusals(recipe)
    for stage in recipe.stages:
        pool = recipe.pools[stage.pool]
        kind = image_kind(pool.gpus)
        if pool.image is None and (problem := _image_problem(kind, settings.images.get(kind))):
            found.setdefault(problem, []).append(stage.name)
        for problem in (*_key_problems(stage, recipe, settings), *task_refusals(stage.pool, pool)):
            found.setdefault(problem, []).append(stage.name)
    if (problem := _image_problem("cpu", settings.images.get("cpu"))) and not any(problem in text for text in found):
        found[f"{problem}; the first and the last task need it"] = []
    raise_refusals(found)


def local_file_refusals(recipe: Recipe) -> dict[str, list[str]]:
    """Return why files that stages read are seen by no pod -> the stages."""
    found: dict[str, list[str]] = {}
    known = {one.path for one in recipe.uploads}
    for stage in recipe.stages:
        try:
            unseen = (*_local_inputs(stage), *local_files(stage, known))
            reasons = [f"pods cannot read {uri}" for uri in unseen if str(uri) not in known]
        except InputError as error:
            reasons = [str(error)]
        for reason in reasons:
            found.setdefault(f"{reason}: put it into a bucket and name that, s3://bucket/key", []).append(stage.name)
    return found


def raise_refusals(found: Mapping[str, Sequence[str]]) -> None:
    """Raise InputError with a line for each reason and its stages, if there is one."""
    if found:
        lines = [f"{text} (stages: {', '.join(names)})" if names else text for text, names in found.items()]
        raise InputError("\n".join(lines))


def _local_inputs(stage: Stage) -> Iterable[str]:
    references = [reference for port in stage.inputs.values() for reference in port]
    return [
        item.uri
        for item in alternatives(references)
        if isinstance(item, UriRef) and item.uri.startswith(("/", "file:"))
    ]


def _key_problems(stage: Stage, recipe: Recipe, settings: Settings) -> Iterator[str]:
    """Yield the keys of endpoints that no Secret gives: a task gets those keys of a Secret that are listed by name."""
    listed = {key for _, keys in settings.secrets for key in keys}
    for name, endpoint in stage_endpoints(stage, recipe).items():
        if endpoint.key_env and endpoint.key_env not in listed:
            how = f"list it in {SECRETS}, as in <secret>:{endpoint.key_env}"
            yield f"endpoint {name!r} needs {endpoint.key_env}, which no Secret gives: {how}"


def _image_problem(kind: str, image: str | None) -> str | None:
    variable = IMAGES[kind]
    if not image:
        return f"{variable} is not set: name the image that `make images IMAGES={kind}` built, name@sha256:<digest>"
    if image.startswith(LOCAL):
        return None
    try:
        pinned_image(image)
    except ValueError as error:
        return f"{variable}={image!r}: {error}"
    return None


def _sources(variable: str, text: str) -> Sources:
    found: list[tuple[str, tuple[str, ...]]] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, keys = part.partition(":")
        _check(variable, name)
        listed = tuple(keys.split("+"))
        if not all(map(_VARIABLE.fullmatch, listed)):
            form = "name:KEY+KEY, since Kubeflow takes the keys one by one"
            raise InputError(f"{variable}: {part!r}: expected {form}")
        found.append((name, listed))
    return tuple(found)


def _check(variable: str, name: str) -> None:
    try:
        object_name(name)
    except ValueError as error:
        raise InputError(f"{variable}={name!r}: {error}") from None
