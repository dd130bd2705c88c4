"""The fork server's last import: no collection in a job visits, and so copies, what the server has imported."""

from __future__ import annotations

import gc

gc.collect()
gc.freeze()
