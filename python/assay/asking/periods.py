"""Periods of time that questions name, in seconds, hours and days."""

from __future__ import annotations

from typing import Final

SECONDS_OF: Final = {
    "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0, "month": 2592000.0,
    "year": 31536000.0,
}  # fmt: skip
HOURS_OF_A_DAY: Final = 24.0
PERIODS: Final = {1 / 24: "hour", 1.0: "day", 7.0: "week", 30.0: "month", 365.0: "year"}
"""Names of periods by their days."""
