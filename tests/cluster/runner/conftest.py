"""The toy components, as the tests of the driver have them."""

from tests.pipelines.conftest import toy_catalog

__all__ = ["toy_catalog"]
