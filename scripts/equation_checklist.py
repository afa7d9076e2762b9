"""Counts what the graph states of a checklist of 265 quantities, and lists what it does not state in full.

python scripts/equation_checklist.py
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

CHECKLIST = Path(__file__).resolve().parent.parent / "tests" / "data" / "equation_checklist.toml"
VERDICTS = ("full", "partial", "absent")


@dataclass(frozen=True)
class Item:
    """A quantity of the checklist and the relations that state it."""

    number: int
    verdict: str
    title: str
    relations: tuple[str, ...]
    remark: str = ""


def read_items() -> list[Item]:
    """All items of the checklist, in the order of the file."""
    rows = tomllib.loads(CHECKLIST.read_text(encoding="utf-8"))["items"]
    return [Item(**{**row, "relations": tuple(row["relations"])}) for row in rows]


def summary(items: list[Item]) -> str:
    """How many items are stated in full, in part and not at all."""
    counts = Counter(item.verdict for item in items)
    return f"{len(items)} quantities: " + ", ".join(
        f"{counts[verdict]} {verdict}" for verdict in VERDICTS
    )


def main() -> int:
    """Print the counts and every item that is not full."""
    items = read_items()
    print(summary(items))
    for item in items:
        if item.verdict != "full":
            print(f"{item.number:4} {item.verdict:8} {item.title}: {item.remark}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
