"""How a query itself says that its event times are read."""

from __future__ import annotations

from msgspec import Struct

from noted_time import Rejected
from noted_time.open_enum import list_names
from noted_time.values import TimeUnit, parse_zone


class OwnForm(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The zone, unit and format that a query names."""

    zone: str | None = None
    unit: str | None = None
    format: str | None = None

    def __bool__(self) -> bool:
        return self != NO_FORM

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.named.items())

    @property
    def named(self) -> dict[str, str]:
        """The fields that are given."""
        values = {"zone": self.zone, "unit": self.unit, "format": self.format}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def reads_utc_or_ms(self) -> bool:
        return self.zone in {None, "UTC"} and self.unit in {None, "ms"} and self.format is None

    def check(self) -> None:
        """Raise `Rejected` for an unknown zone or unit."""
        if self.zone is not None:
            parse_zone(self.zone)
        units = list_names(TimeUnit)
        if self.unit is not None and self.unit not in units:
            raise Rejected(f"unit must be one of {', '.join(units)}, not {self.unit!r:.40}")


NO_FORM = OwnForm()
