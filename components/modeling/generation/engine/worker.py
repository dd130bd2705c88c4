"""Extension of vLLM's workers that replaces weights; vLLM adds this class, given by name, to its worker's bases."""

from __future__ import annotations

from typing import Any


class WeightLoader:
    """Extension of a vLLM worker."""

    model_runner: Any

    def load_posttrain_weights(self, folder: str) -> None:
        """Replace all weights in place by those of a model folder of the same architecture."""
        from vllm.platforms import current_platform

        self.model_runner.reload_weights(weights_path=folder)
        head = getattr(self.model_runner.get_model(), "lm_head", None)
        if head is not None and current_platform.is_cpu():
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            # The CPU build multiplies by a packed copy of the output matrix; a reload does not update that copy when
            # the embedding is tied to it.
            dispatch_cpu_unquantized_gemm(head, remove_weight=False)
