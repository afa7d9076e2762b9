"""Numbers with their nouns."""


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun.

    >>> count(1, "input"), count(2, "family", "families")
    ('1 input', '2 families')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
