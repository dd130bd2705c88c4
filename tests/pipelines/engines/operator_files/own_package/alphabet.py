"""Words of letters that lie in a file of the package."""

from importlib import resources


def word(number: int) -> str:
    """Return a word of four letters."""
    letters = resources.files("own_package").joinpath("data/letters.txt").read_text().strip()
    return "".join(letters[(number * step) % len(letters)] for step in (1, 3, 5)) + "x"
