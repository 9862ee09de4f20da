"""Numbers as people read them: one function for each form."""

from typing import Literal, TypeAlias

Better: TypeAlias = Literal["more", "less"]
"""Which of two numbers of a metric is better."""


def three_digits(value: float) -> str:
    """Three significant digits, and all digits before the point.

    >>> three_digits(0.19452), three_digits(12.34), three_digits(48970870)
    ('0.195', '12.3', '48,970,870')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def three_decimals(value: float) -> str:
    """A count per operation, as far as it repeats."""
    return f"{value:.3f}"


def count(value: float) -> str:
    """A count for people: three decimals below 1,000, and then fewer.

    >>> count(6.0), count(0), count(1234.56), count(1234567.8)
    ('6.000', '0', '1,234.6', '1,234,568')
    """
    if not value:
        return "0"
    size = abs(value)
    return three_decimals(value) if size < 1000 else f"{value:,.1f}" if size < 1e5 else f"{value:,.0f}"


def short_count(value: float) -> str:
    """A count where there is little room: two decimals below 100, and then fewer.

    >>> short_count(6.0), short_count(0.004), short_count(0), short_count(123.456), short_count(12345.6)
    ('6.00', '<0.01', '0', '123.5', '12,346')
    """
    if not value:
        return "0"
    if value < 0.005:
        return "<0.01"
    return f"{value:.2f}" if value < 99.995 else f"{value:.1f}" if value < 999.95 else f"{value:,.0f}"


def rate(value: float) -> str:
    """Operations per second.

    >>> rate(9_677_000), rate(13_200)
    ('9.68 M', '13.2 k')
    """
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return three_digits(value)


def tick(value: float) -> str:
    """The label of a tick on an axis.

    >>> [tick(value) for value in (0, 12.0, 0.25, 40_000, 3e6, 1e-5)]
    ['0', '12', '0.25', '40k', '3M', '1e-05']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / min(size, 1e3 if letter == 'k' else size):.4g}{letter}"
    return f"{value:.4g}"


def percent_change(share: float) -> str:
    """A change as a share, in percent with its sign.

    >>> percent_change(-0.524), percent_change(0.0949), percent_change(12.5)
    ('-52.4%', '+9.5%', '+1250%')
    """
    return f"{share:+.0%}" if abs(share) >= 1 else f"{share:+.1%}"


def size(number: int) -> str:
    """A number of bytes.

    >>> size(512), size(187_654_144), size(300 << 30)
    ('512 bytes', '179 MiB', '300 GiB')
    """
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if number >= 2 << shift:
            return f"{number / (1 << shift):.0f} {unit}"
    return f"{number} bytes"
