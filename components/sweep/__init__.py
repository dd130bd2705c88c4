"""The sweep stage: what the section `sweep` of a recipe adds to its graph."""
