"""What samplers know of prompts and of learning: categories, gains, first pass rates, task spaces."""
