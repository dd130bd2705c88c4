"""Cron expressions: five fields of which every engine has the same understanding, and the times that they mean.

Local times are found as Airflow finds them: a time that the clocks skip is an hour later, one that they show twice is
the second of the two, and what fires every hour goes on by the hour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from components.contract.errors import nearest

UTC_NAME = "UTC"
MAX_LENGTH = 200
FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
HOUR = 1
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELD = re.compile(r"[0-9a-z*,/-]+")
_FORM = "expected five fields (minute hour day month weekday), such as '0 3 * * mon-fri'"


@dataclass(frozen=True)
class Cron:
    """A valid cron expression in a time zone."""

    text: str
    timezone: str = UTC_NAME

    @classmethod
    def read(cls, text: str, timezone: str = UTC_NAME) -> Cron:
        """Return a checked expression; raise ValueError with what was expected.

        Seconds, years, `@daily`, `L`, `#` and `H` are refused: engines differ in them.
        """
        fields = text.lower().split()
        if len(text) > MAX_LENGTH or len(fields) != len(FIELDS):
            raise ValueError(_FORM)
        for name, field in zip(FIELDS, fields, strict=True):
            if not _FIELD.fullmatch(field) or not {*MONTHS, *DAYS}.issuperset(re.findall("[a-z]+", field)):
                raise ValueError(f"{name} {field!r}: expected numbers, names, '*', ranges, lists and steps")
        cron = cls(" ".join(fields), zone_name(timezone))
        cron.after(datetime.now(UTC))
        return cron

    def after(self, moment: datetime) -> datetime:
        """Return the first time later than an aware `moment`, in the expression's time zone.

        Raises ValueError for an expression that is invalid or never fires.
        """
        from croniter import CroniterBadDateError, croniter

        local = moment.astimezone(self.zone)
        try:
            if self.fields[HOUR] == "*":  # by the hour, through changes of the clock
                found: datetime = croniter(self.text, local).get_next(datetime)
                return found
            return self._local(croniter(self.text, local.replace(tzinfo=None)).get_next(datetime))
        except CroniterBadDateError:
            raise ValueError("no time that it means ever comes") from None
        except ValueError as error:
            raise ValueError(f"{_plain(str(error))}; {_FORM}") from None

    def last(self, after: datetime, until: datetime) -> datetime | None:
        """Return the last time that is later than `after` and not later than `until`; None if there is none."""
        found = None
        while (following := self.after(found or after)) <= until:
            found = following
        return found

    def times(self, moment: datetime) -> Iterator[datetime]:
        """Yield all times later than an aware `moment`."""
        while True:
            moment = self.after(moment)
            yield moment

    @property
    def words(self) -> str:
        """Return the expression with its time zone, for people."""
        return f"{self.text} ({self.timezone})"

    @cached_property
    def zone(self) -> tzinfo:
        """Return the time zone."""
        return UTC if self.timezone == UTC_NAME else ZoneInfo(self.timezone)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Return the five fields, each "*" or a list of numbers; a Sunday is 0."""
        from croniter import croniter

        numbers: list[list[int | str]] = croniter.expand(self.text)[0]
        return tuple(",".join(map(str, field)) for field in numbers)

    def _local(self, naive: datetime) -> datetime:
        first, second = (naive.replace(tzinfo=self.zone, fold=fold) for fold in (0, 1))
        skipped = second.utcoffset() > first.utcoffset()  # type: ignore[operator]
        return (first if skipped else second).astimezone(UTC).astimezone(self.zone)


def zone_name(name: str) -> str:
    """Return the name of a known time zone; raise ValueError for another."""
    if name == UTC_NAME:
        return name
    try:
        ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError):  # unknown names, and names that are paths or folders
        near = nearest(name, sorted(available_timezones()))
        hint = f"; did you mean {near!r}?" if near else ", expected a name such as Europe/Berlin"
        raise ValueError(f"unknown time zone{hint}") from None
    return name


def _plain(message: str) -> str:
    """Return a message of croniter without the expression, which is shown beside it."""
    return re.sub(r"^\[.*?\] is not acceptable[.,] ?", "", message).strip(". ") or "is no cron expression"
