"""To be imported by a fork server after all else that it preloads: keeps the source of that."""

from components.runtime.closure.loaded import keep_loaded_source

keep_loaded_source()
