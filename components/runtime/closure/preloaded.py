"""Imported by a fork server after all its other preloads: keeps their source."""

from components.runtime.closure.loaded import keep_loaded_source

keep_loaded_source()
