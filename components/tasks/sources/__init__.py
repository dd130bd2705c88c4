"""Sources: operators (request, *, config) -> SourceRows, one place that rows come from a file."""
