"""Folders of models as files: read and checked before a library sees them, without torch."""
