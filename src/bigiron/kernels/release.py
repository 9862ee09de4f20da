"""The order of kernels' releases."""

import math
import re


def release_order(release: str) -> tuple[float, ...]:
    """A key by which kernels' releases are in order: 6.12 after 6.1, and -rc3 before its release.

    >>> sorted(["6.12.1", "7.1.0", "7.1.0-rc3", "5.10.0-40-cloud-amd64", "6.1.0"], key=release_order)
    ['5.10.0-40-cloud-amd64', '6.1.0', '6.12.1', '7.1.0-rc3', '7.1.0']
    """
    version = [float(number) for number in re.findall(r"\d+", release.partition("-")[0])]
    candidate = re.search(r"-rc(\d+)", release)
    rest = [float(number) for number in re.findall(r"\d+", release.partition("-")[2])]
    return (*(version + [0.0] * 3)[:3], float(candidate[1]) if candidate else math.inf, *rest)
