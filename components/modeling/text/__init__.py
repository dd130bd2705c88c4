"""From messages to token ids and back: tokenizers, templates, turn ends."""
