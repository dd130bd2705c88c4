"""Programs as answers: the program in a response, its tests, the languages, and how many of the tests it passes."""
