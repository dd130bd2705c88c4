"""Programs as answers: extraction from a response, tests, languages, and grading."""
