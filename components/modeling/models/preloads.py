"""What stages with models import: an engine that forks its jobs imports it once."""

from __future__ import annotations

MODEL_PRELOADS = ("torch", "transformers.modeling_utils", "components.modeling.native.native_policy")
