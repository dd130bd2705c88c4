"""Imported by a fork server after all that data gates need: the code of checks, and the templates of their page."""

from __future__ import annotations

import components.runtime.gates.library  # noqa: F401  before all that imports Great Expectations whole
from components.runtime.gates import checking  # noqa: F401
from components.runtime.gates.page import page_view, stand_alone

for name in page_view().env.list_templates():
    page_view().env.get_template(name)
stand_alone("<body></body>", "")
