"""Responses to items of made worlds, worked out step by step and as careful as asked."""
