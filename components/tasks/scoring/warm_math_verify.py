"""Warms math-verify up: sympy imports and prepares much at the first use of each of its parts."""

from __future__ import annotations

from components.tasks.scoring.math_verify import equal

PAIRS = (
    ("2(x+1)", "2x + 2"),
    ("\\frac{1}{2}", "0.5"),
    ("2\\sqrt{2}", "$\\sqrt{8}$"),
    ("\\sin^2 x + \\cos^2 x", "1"),
    ("\\{1, 2\\}", "2, 1"),
    ("[0, 1)", "[0, 1]"),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{bmatrix}1\\\\3\\end{bmatrix}"),
    ("x^2", "x^3"),
    ("1/3", "2/7"),
)

for _expected, _given in PAIRS:
    equal({"expected": _expected, "given": _given, "decimals": 6})
