"""Amounts add up, in any order and in any grouping, and are never negative."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.runtime.costs.amounts import Amount, Rate, total
from components.runtime.costs.words import amount_text, hours_text, money_text

RATES = st.builds(
    Rate,
    pool=st.sampled_from(["cpu", "l4x1", "h100x8"]),
    cpus=st.integers(1, 200),
    gpus=st.integers(0, 16),
    price_per_hour=st.none() | st.integers(0, 100).map(float),
    currency=st.sampled_from(["", "EUR", "USD"]),
)
SECONDS = st.integers(0, 10_000_000).map(lambda quarters: quarters / 4)
PARTS = st.lists(st.tuples(RATES, SECONDS, st.none() | SECONDS), max_size=12)


def close(one: Amount, other: Amount) -> bool:
    plain = [(a.hours, a.gpu_hours, a.cpu_hours, a.cpu_hours_used or 0.0) for a in (one, other)]
    return plain[0] == pytest.approx(plain[1]) and dict(one.prices) == pytest.approx(dict(other.prices))


@given(PARTS, st.randoms())
def test_sums_do_not_depend_on_order_or_grouping(parts, chance):
    amounts = [(rate.pool, rate.amount(seconds, used)) for rate, seconds, used in parts]
    whole = total(amount for _, amount in amounts)
    chance.shuffle(amounts)
    assert close(whole, total(amount for _, amount in amounts))
    cells = [total(a for _, a in group) for _, group in groupby(sorted(amounts, key=lambda p: p[0]), lambda p: p[0])]
    assert close(whole, total(cells)) and whole.without_price == total(cells).without_price


@given(PARTS)
def test_a_sum_is_by_hand_what_its_parts_are_and_never_negative(parts):
    whole = total(rate.amount(seconds, used) for rate, seconds, used in parts)
    assert whole.gpu_hours == pytest.approx(sum(seconds * rate.gpus for rate, seconds, _ in parts) / 3600)
    assert whole.cpu_hours == pytest.approx(sum(seconds * rate.cpus for rate, seconds, _ in parts) / 3600)
    for currency in ("", "EUR", "USD"):
        paid = [
            s * r.price_per_hour / 3600 for r, s, _ in parts if r.price_per_hour is not None and r.currency == currency
        ]
        assert whole.prices.get(currency, 0.0) == pytest.approx(sum(paid))
    assert min(whole.hours, whole.gpu_hours, whole.cpu_hours, *whole.prices.values()) >= 0
    assert whole.without_price == {rate.pool for rate, seconds, _ in parts if rate.price_per_hour is None and seconds}
    assert (whole.cpu_hours_used is None) == any(used is None for _, _, used in parts)


def test_two_nodes_of_eight_gpus_for_ninety_minutes():
    rate = Rate("h100x16", cpus=192, gpus=16, price_per_hour=120.0, currency="EUR")
    amount = rate.amount(5400, cpu_seconds=36_000)
    assert (amount.gpu_hours, amount.cpu_hours, amount.cpu_hours_used) == (24.0, 288.0, 10.0)
    assert amount.prices == {"EUR": 180.0}
    assert amount_text(amount) == "GPU 24.00 h, CPU 288 h (10.00 h at work), 180.00 EUR"
    assert Rate.of_record(rate.to_record()) == rate


def test_money_in_several_currencies_is_not_mixed_and_says_what_it_lacks():
    paid = Rate("l4x1", 7, 1, 0.8, "USD").amount(3600) + Rate("mine", 1, 0, 0.001).amount(3600)
    assert money_text(paid) == "0.80 USD + under 0.01"
    assert money_text(paid + Rate("cpu", 1, 0).amount(60)) == "0.80 USD + under 0.01 without pool cpu"
    assert money_text(Rate("cpu", 1, 0).amount(60)) == ""


def test_hours_in_words():
    assert [hours_text(seconds / 3600) for seconds in (0, 12, 138, 15_300, 720_000)] == [
        "0 s", "12 s", "2.3 min", "4.25 h", "200 h",
    ]  # fmt: skip
    assert amount_text(Amount()) == "nothing"
    assert Rate.of_record(None) is None and Rate.of_record({"pool": "cpu"}) is None
