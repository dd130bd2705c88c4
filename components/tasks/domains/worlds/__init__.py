"""The interpreters of made worlds: what their sources, verifiers and demonstrators share. All are total."""
