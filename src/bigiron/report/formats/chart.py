"""Charts for a page: curves with intervals, as SVG that takes its colours from the page.

Lines differ by markers and dashes as well, so that they can be read without colour.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from bigiron.util.numbers import tick

_WIDTH, _HEIGHT = 460, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 14, 12, 40
_LOG_FROM = 50.0  # ratio of the largest value to the smallest from which the axis is logarithmic
_LEAST_GAP = 30  # between the labels of two ticks
_LETTER = 7  # of a name of a place, at most
_MARKERS = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "M-3.6,-3.6h7.2v7.2h-7.2z",
    "M0,-4.6L4.4,3.4H-4.4z",
    "M0,-5L5,0L0,5L-5,0z",
    "M-4.4,-3.4H4.4L0,4.6z",
    "M-1.5,-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
)


@dataclass(frozen=True)
class DataPoint:
    """A value, and the interval or range that it lies in, if there is any."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ChartLine:
    """One line of a chart: what was measured, and the law that was fitted to it."""

    name: str
    measured: tuple[DataPoint, ...]
    law: tuple[DataPoint, ...] = ()
    formula: str = ""  # of the law, for the legend
    style: int = 0  # which colour, marker and dashes: the same variant has the same in all charts


@dataclass(frozen=True)
class Chart:
    """Lines against the number of CPUs or tasks."""

    title: str
    x: str
    y: str
    lines: tuple[ChartLine, ...]
    names: tuple[str, ...] = ()  # of the places 0, 1, ... where x is no number

    @property
    def legend(self) -> list[tuple[Markup, str]]:
        """Each line's sample and its name."""
        return [(_sample(line.style), _named(line)) for line in self.lines]

    @property
    def svg(self) -> Markup:
        """The picture."""
        return _Picture(self).svg


def _named(line: ChartLine) -> str:
    return f"{line.name}: {line.formula}" if line.formula else line.name


def _sample(style: int) -> Markup:
    return Markup(
        '<svg class="sample s{}" viewBox="0 0 34 12" width="34" height="12" aria-hidden="true">'
        '<path class="line" d="M1,6H33"/><path class="marker" transform="translate(17,6)" d="{}"/></svg>'
    ).format(style % 6, _MARKERS[style % 6])


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float
    is_log: bool
    step: float = 1.0  # between ticks

    def at(self, value: float) -> float:
        """Where a value is in the picture."""
        low, high, value = (math.log2(v) if self.is_log else v for v in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.start + share * (self.end - self.start), 2)


class _Picture:
    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        spots = [spot for line in chart.lines for spot in (*line.measured, *line.law)]
        xs = [spot.x for spot in spots]
        ends = (0, len(chart.names) - 1) if chart.names else (min(xs), max(xs))
        self.x = _Axis(ends[0], ends[1], _LEFT + 8, _WIDTH - _RIGHT - 8, min(ends) > 0)
        self.y = _value_axis(spots)
        self.last = max((spot.x for line in chart.lines for spot in line.measured), default=max(xs))

    @property
    def svg(self) -> Markup:
        parts = [*self._grid(), *self._beyond()]
        for line in self.chart.lines:
            parts.append(Markup('<g class="s{}">').format(line.style % 6))
            parts += [*self._law(line), *self._measured(line), Markup("</g>")]
        names = ", ".join(line.name for line in self.chart.lines)
        head = Markup(
            '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}: {} against {}; lines: {}">'
        ).format(_WIDTH, _HEIGHT, self.chart.title, self.chart.y, self.chart.x, names)
        return head + Markup("").join(parts) + Markup("</svg>")

    def _grid(self) -> Iterator[Markup]:
        for value in _ticks(self.y):
            y = self.y.at(value)
            yield Markup('<path class="grid" d="M{},{}H{}"/>').format(_LEFT, y, _WIDTH - _RIGHT)
            yield Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(
                _LEFT - 7, y + 4, tick(value)
            )
        for value in self._x_ticks():
            x = self.x.at(value)
            yield Markup('<path class="axis" d="M{},{}v4"/>').format(x, _HEIGHT - _BOTTOM)
            yield Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
                x, _HEIGHT - _BOTTOM + 17, self._name(value)
            )
        yield Markup('<path class="axis" d="M{},{}H{}"/>').format(_LEFT, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT)
        yield Markup('<text class="name" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            (_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 5, self.chart.x
        )

    def _x_ticks(self) -> list[float]:
        """Where something was measured or predicted, as far as the labels have room; both ends first."""
        spots = [spot for line in self.chart.lines for spot in line.measured or line.law]
        values = sorted({spot.x for spot in spots} | {self.x.high})
        if self.chart.names:
            values = [float(place) for place in range(len(self.chart.names))]
        gap = max([_LEAST_GAP, *(_LETTER * len(name) for name in self.chart.names)])
        chosen: list[float] = []
        for value in (values[-1], values[0], *reversed(values[1:-1])):
            if all(abs(self.x.at(value) - self.x.at(other)) >= gap for other in chosen):
                chosen.append(value)
        return chosen

    def _name(self, value: float) -> str:
        return self.chart.names[int(value)] if self.chart.names else tick(value)

    def _beyond(self) -> Iterator[Markup]:
        """Where nothing was measured any more."""
        if self.x.high <= self.last or self.chart.names:
            return
        x = self.x.at(self.last)
        width = _WIDTH - _RIGHT - x
        yield Markup('<rect class="beyond" x="{}" y="{}" width="{}" height="{}"/>').format(
            x, _TOP, width, _HEIGHT - _BOTTOM - _TOP
        )
        yield Markup('<text class="tick" x="{}" y="{}">predicted</text>').format(x + 6, _HEIGHT - _BOTTOM - 7)

    def _law(self, line: ChartLine) -> Iterator[Markup]:
        band = [spot for spot in line.law if spot.low is not None and spot.high is not None]
        if band:
            there = [f"{self.x.at(spot.x)},{self._y(spot.high)}" for spot in band]
            back = [f"{self.x.at(spot.x)},{self._y(spot.low)}" for spot in reversed(band)]
            yield Markup('<path class="band" d="M{}Z"/>').format("L".join([*there, *back]))
        if line.law:
            yield Markup('<path class="law" d="M{}"/>').format(self._path(line.law))

    def _measured(self, line: ChartLine) -> Iterator[Markup]:
        if not line.law:
            yield Markup('<path class="line" d="M{}"/>').format(self._path(line.measured))
        for spot in line.measured:
            x = self.x.at(spot.x)
            if spot.low is not None and spot.high is not None and spot.high > spot.low:
                low, high = self._y(spot.low), self._y(spot.high)
                yield Markup('<path class="error" d="M{},{}V{}M{},{}h6M{},{}h6"/>').format(
                    x, low, high, x - 3, low, x - 3, high
                )
            yield Markup(
                '<path class="marker" transform="translate({},{})" d="{}"><title>{}</title></path>'
            ).format(x, self._y(spot.y), _MARKERS[line.style % 6], self._tip(line.name, spot))

    def _tip(self, name: str, spot: DataPoint) -> str:
        place = self._name(spot.x) if self.chart.names else f"{spot.x:g} {self.chart.x}"
        interval = f" ({spot.low:.4g} to {spot.high:.4g})" if spot.low is not None else ""
        return f"{name}, {place}: {spot.y:.4g}{interval}"

    def _path(self, spots: Iterable[DataPoint]) -> str:
        return "L".join(f"{self.x.at(spot.x)},{self._y(spot.y)}" for spot in spots)

    def _y(self, value: float | None) -> float:
        """Held inside the picture: an interval may reach far beyond it."""
        assert value is not None
        return self.y.at(min(self.y.high, max(self.y.low, value)))


def _value_axis(spots: Sequence[DataPoint]) -> _Axis:
    """From zero, or logarithmic where values differ too much to be seen side by side."""
    values = [spot.y for spot in spots]
    values += [end for spot in spots for end in (spot.low, spot.high) if end is not None]
    low, high = min(values), max(values)
    positive = [spot.y for spot in spots if spot.y > 0]
    place = _HEIGHT - _BOTTOM, _TOP
    if (
        positive
        and low >= 0
        and min(spot.y for spot in spots) > 0
        and max(positive) > _LOG_FROM * min(positive)
    ):
        least = 10 ** math.floor(math.log10(min(positive)))
        return _Axis(least, max(10 ** math.ceil(math.log10(max(positive))), high), *place, True)
    step = _step(max(high, 0.0) - min(low, 0.0) or 1.0)
    first, last = math.floor(min(low, 0.0) / step), math.ceil(max(high, step / 2) / step - 1e-9)
    return _Axis(step * first, step * last, *place, False, step)


def _ticks(axis: _Axis) -> list[float]:
    if axis.is_log:
        first, last = math.ceil(math.log10(axis.low) - 1e-9), math.floor(math.log10(axis.high) + 1e-9)
        every = max(1, (last - first) // 5)
        return [10.0**power for power in range(first, last + 1, every)]
    count = round((axis.high - axis.low) / axis.step)
    return [axis.low + axis.step * number for number in range(count + 1)]


def _step(reach: float) -> float:
    """A round step of which four to eight make the reach.

    >>> _step(6.4), _step(100), _step(0.05)
    (1, 20, 0.01)
    """
    rough = reach / 5
    power: float = 10 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.75)
