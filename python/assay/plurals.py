"""Numbers with their nouns, and bytes with their units."""


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun.

    >>> count(1, "input"), count(2, "family", "families")
    ('1 input', '2 families')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size(nbytes: int) -> str:
    """Bytes in a unit that people read.

    >>> size(999), size(1_234_567)
    ('999 B', '1.2 MB')
    """
    number, unit = float(nbytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"


def amount(number: float, noun: str) -> str:
    """A number that need not be whole, and its noun.

    >>> amount(1.0, "day"), amount(2.5, "day")
    ('1 day', '2.5 days')
    """
    return f"{number:g} {noun if number == 1 else noun + 's'}"
