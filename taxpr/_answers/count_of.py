"""A number with its noun, for headlines and messages: ``1 value``, ``2 values``."""


def count_of(number: int, what: str) -> str:
    """A number and a noun, in the plural unless the number is 1.

    Example:
        >>> from taxpr._answers.count_of import count_of
        >>> count_of(1, "value"), count_of(0, "value"), count_of(1200, "equation")
        ('1 value', '0 values', '1,200 equations')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
