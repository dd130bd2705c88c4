"""Published data sets by name: where each lies, its licence, and how one of its rows becomes one of ours."""
