"""Amounts in words."""

from __future__ import annotations

from components.runtime.costs.amounts import Amount

NOTHING = "nothing"
MINUTE, HOUR = 1 / 60, 1.0


def hours_text(hours: float) -> str:
    """Return hours for people: 12 s, 2.3 min, 4.25 h."""
    if hours < MINUTE:
        return f"{3600 * hours:.0f} s"
    if hours < HOUR:
        return f"{60 * hours:.1f} min"
    return f"{hours:.2f} h" if hours < 100 else f"{hours:,.0f} h"


def money_text(amount: Amount) -> str:
    """Return the money in all currencies, with what it lacks: "12.30 EUR without pool cpu"; empty without prices."""
    known = [f"{_money(value)} {currency}".rstrip() for currency, value in amount.prices.items()]
    lacks = sorted(amount.without_price)
    without = f" without pool{'s' if len(lacks) > 1 else ''} {', '.join(lacks)}" if known and lacks else ""
    return " + ".join(known) + without


def amount_text(amount: Amount, *, used: bool = True) -> str:
    """Return an amount in one line: "GPU 3.20 h, CPU 12.0 min (8.1 min at work), 14.20 EUR"."""
    if not amount.hours:
        return NOTHING
    parts = [f"GPU {hours_text(amount.gpu_hours)}"] if amount.gpu_hours else []
    work = amount.cpu_hours_used if used else None
    at_work = "" if work is None else f" ({hours_text(work)} at work)"
    parts.append(f"CPU {hours_text(amount.cpu_hours)}{at_work}")
    return ", ".join([*parts, *filter(None, [money_text(amount)])])


def _money(value: float) -> str:
    return "under 0.01" if 0 < value < 0.01 else f"{value:,.2f}"
