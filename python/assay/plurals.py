"""Numbers with their nouns."""


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun.

    >>> count(1, "input"), count(2, "family", "families")
    ('1 input', '2 families')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def amount(number: float, noun: str) -> str:
    """A number that need not be whole, and its noun.

    >>> amount(1.0, "day"), amount(2.5, "day")
    ('1 day', '2.5 days')
    """
    return f"{number:g} {noun if number == 1 else noun + 's'}"
