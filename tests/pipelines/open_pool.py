"""A pool that says everything that a pool can say of its pods."""

from __future__ import annotations

from typing import Any

SIZE = {"cpus": 96, "memory_gib": 1600}
PAIR = {**SIZE, "gpus": 8, "gpu_type": "h100", "nodes": 2, "trainer": "fsdp"}
TERM = {"matchExpressions": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]}]}
OPEN: dict[str, Any] = {
    "env": {"NCCL_DEBUG": "INFO", "HF_HUB_ENABLE_HF_TRANSFER": 1, "POSTTRAIN_VLLM_GPU_MEMORY": 0.6},
    "labels": {"team": "rl", "cost.example.com/center": "42"},
    "annotations": {"kueue.x-k8s.io/podset-required-topology": "cloud.provider.com/topology-rack"},
    "resources": {"vpc.amazonaws.com/efa": 32, "hugepages-2Mi": "5120Mi"},
    "ephemeral_storage": "500Gi",
    "affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 5,
                    "podAffinityTerm": {
                        "labelSelector": {"matchLabels": {"app": "noisy"}},
                        "topologyKey": "kubernetes.io/hostname",
                    },
                }
            ]
        },
    },
    "topology": {"required": "topology.kubernetes.io/zone", "preferred": "topology.k8s.aws/network-node-layer-3"},
    "grace_period": "2m",
    "volumes": [
        {"mount": "/data", "claim": "datasets", "read_only": True, "sub_path": "math/v1"},
        {"mount": "/tmp", "ephemeral": {"size": "2Ti", "storage_class": "local-nvme"}},
        {"mount": "/etc/ca", "config_map": "ca"},
        {"mount": "/etc/hub", "secret": "hub"},
        {"mount": "/scratch", "empty_dir": {"size": "8Gi", "medium": "Memory"}},
        {"mount": "/models", "csi": {"driver": "gcsfuse.csi.storage.gke.io", "attributes": {"bucketName": "models"}}},
    ],
    "queue": "stages",
}
