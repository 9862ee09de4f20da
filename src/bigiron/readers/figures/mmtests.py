"""mmtests' figures, as its bin/extract-mmtests.pl prints them with --print-json."""

import re

import msgspec

from bigiron.errors import UserError
from bigiron.readers.figure import Figure, Format, Reading, count, document, label, number
from bigiron.util import decode
from bigiron.util.numbers import Better

_TASKS = re.compile(r"(.+)-(\d+)")
_MODULE = re.compile(r"Extract(?:Shellpack)?(.*)")


class _Samples(msgspec.Struct):
    values: list[str | float] = msgspec.field(name="Values")


class _Extract(msgspec.Struct):
    operations: dict[str, list[_Samples]] = msgspec.field(name="_ResultData")
    preferred: str = msgspec.field(default="Lower", name="_PreferredVal")
    module: str = msgspec.field(default="", name="_ModuleName")
    test: str = msgspec.field(default="", name="_TestName")


def _read(text: str) -> Reading:
    """A metric for each operation; a number at the end of its name is that of tasks. Units it does not say.

    >>> _read('{"_ResultData": {"time-4": [{"Values": ["0.2"]}]}}').figures
    [Figure(metric='time', unit='', better='less', value=0.2, tasks=4, run=1)]
    """
    try:
        extract = decode.convert(document(text), _Extract)
    except msgspec.ValidationError as error:
        raise UserError(f"this is not the JSON of extract-mmtests.pl --print-json: {error}") from None
    better: Better = "more" if extract.preferred == "Higher" else "less"
    figures = []
    for operation, iterations in extract.operations.items():
        at = _TASKS.fullmatch(operation)
        name, tasks = (at[1], count(at[2], None)) if at else (operation, None)
        values = [value for iteration in iterations for value in iteration.values]
        figures += [
            Figure(label(name, None), "", better, number(str(value), None, name), tasks, run)
            for run, value in enumerate(values, 1)
        ]
    module = _MODULE.fullmatch(extract.module)
    about = {"test": label(extract.test, None)} if extract.test else {}
    return Reading(figures, about, workload=module[1] if module else None)


FORMAT = Format("mmtests", "the JSON of mmtests' extract-mmtests.pl --print-json", _read)
