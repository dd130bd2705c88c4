"""Words that count, from a file of the package."""

from importlib import resources


def polite_words():
    """Return the words of data/polite.txt."""
    return resources.files("my_package").joinpath("data/polite.txt").read_text().split()
