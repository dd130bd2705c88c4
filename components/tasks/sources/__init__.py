"""Sources: operators (request, *, config) -> SourceRows, one file for each origin of rows."""
