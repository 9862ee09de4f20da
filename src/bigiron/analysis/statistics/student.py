"""Student's t distribution. Importing scipy's takes a quarter of a second."""

import math


def t_below(t: float, freedom: int) -> float:
    """Student's t distribution function for whole degrees of freedom (Abramowitz and Stegun, 26.7.3, 26.7.4).

    >>> round(t_below(2.776445, 4), 6), round(t_below(-12.7062, 1), 6)
    (0.975, 0.025)
    """
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(odd, freedom - 1, 2):
        total += term
        term *= cosine**2 * (k + 1) / (k + 2)
    within = math.sin(angle) * total
    if odd:
        within = 2 / math.pi * (angle + within)
    return (1 + within) / 2
