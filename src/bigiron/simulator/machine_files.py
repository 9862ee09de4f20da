"""Machine files in TOML: the built-in machines, by name, and a user's own."""

from __future__ import annotations

import tomllib
from pathlib import Path

from bigiron import _sim
from bigiron.errors import UserError
from bigiron.util.lazy import Floats
from bigiron.util.lazy import numpy as np


def builtin() -> list[_sim.Machine]:
    """The machines that come with bigiron.

    >>> [machine.cpus for machine in builtin() if machine.name == "altix-512"]
    [512]
    """
    return [_sim.Machine.from_toml(text) for _name, text in _sim.machines()]


def text(name: str) -> str:
    """The TOML of a machine that comes with bigiron, or of a file.

    >>> text("cray")
    Traceback (most recent call last):
    bigiron.errors.UserError: no machine 'cray': `bigiron machine list` lists them, or give a file NAME.toml
    """
    if not name.endswith(".toml"):
        for known, toml in _sim.machines():
            if known == name:
                return toml
        raise UserError(f"no machine {name!r}: `bigiron machine list` lists them, or give a file NAME.toml")
    try:
        return Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{name} is not a machine file: it is not text") from None


def load(name: str, arch: str = "") -> _sim.Machine:
    """The machine of this name or file. `arch` is its architecture if the file names none."""
    toml = text(name)
    try:
        machine = _sim.Machine.from_toml(toml)
        if arch and "architecture" not in tomllib.loads(toml):
            machine = _sim.Machine.from_toml(f'architecture = "{arch}"\n{toml}')
        return machine
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None


def sampled(name: str, repetition: int) -> _sim.Machine:
    """The machine of a repetition with ranges: the first repetition has the file's own figures."""
    machine = load(name)
    if repetition == 1:
        return machine
    if not machine.unknowns:
        raise UserError(f"{name} has no ranges to sample from: leave out --ranges")
    places = sobol_points(len(machine.unknowns), repetition - 1)[-1]
    return machine.at([float(place) for place in places], 1.0, 1.0)


def sobol_points(unknowns: int, samples: int, seed: int = 1) -> Floats:
    """A quantile of each unknown, for each sample: scrambled Sobol points, which fill the space evenly.

    The first samples of many are those of few.
    """
    from scipy.stats import qmc  # here, as no other command should wait a second for it

    power = max(1, (samples - 1).bit_length())
    found = qmc.Sobol(unknowns, rng=np.random.default_rng(seed)).random_base2(power)
    return np.asarray(found[:samples], np.float64)
