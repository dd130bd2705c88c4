"""Words."""


def word(number: int) -> str:
    return "".join(chr(ord("a") + (number * step) % 26) for step in (1, 3, 5)) + "x"
