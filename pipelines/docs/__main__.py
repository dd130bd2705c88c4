"""`python -m pipelines.docs` (make docs) renews the generated tables."""

from __future__ import annotations

from pipelines.docs.tables import renew_all

renew_all()
