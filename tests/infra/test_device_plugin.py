"""NVIDIA's device plugin runs on every node that has a GPU, and on no other."""

from __future__ import annotations

import pytest
import yaml

from pipelines.recipe.pools import load_pools
from tests.infra.manifests import KUBERNETES

pytestmark = pytest.mark.infra
LABEL = "posttrain.dev/pool"


def test_it_runs_on_every_gpu_node_whatever_its_taints() -> None:
    values = yaml.safe_load((KUBERNETES / "overlays" / "aws" / "device-plugin" / "values.yaml").read_text())
    assert values["tolerations"] == [{"operator": "Exists"}]  # of all taints
    required = values["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    assert (expression["key"], expression["operator"]) == (LABEL, "In")
    pools = load_pools().values()
    assert set(expression["values"]) == {pool.node_selector[LABEL] for pool in pools if pool.gpus}
