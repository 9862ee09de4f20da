"""`bigiron predict`: predict throughput on another machine from a recorded study."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.common.options import MeasuredThere, OneTask, choice, doublings, refuse_rate
from bigiron.readers import measured_points
from bigiron.report import predict as prediction_report
from bigiron.results import prediction
from bigiron.study import store


def predict(
    study: Annotated[
        Path,
        typer.Argument(
            help="folder of a study with the probe trace, or with conflicts, locks and instructions"
        ),
    ],
    machine: Annotated[
        str, typer.Option(help="the machine to predict for (`bigiron machine list`), or a TOML file")
    ],
    tasks: Annotated[
        str | None,
        typer.Option(
            help="task counts: 1,8,48, or 1..48 by doubling  [default: up to all CPUs of the machine]"
        ),
    ] = None,
    one_task: OneTask = None,
    measured: MeasuredThere = None,
    lock: Annotated[
        str | None,
        choice(
            ("qspinlock", "cna", "powerpc"),
            "the kernel's spinlock implementation  [default: that of the machine's architecture]",
        ),
    ] = None,
    spread: Annotated[
        bool,
        typer.Option(
            "--spread", help="spread tasks over all nodes instead of filling one node after another"
        ),
    ] = False,
    samples: Annotated[
        int, typer.Option(min=8, max=4096, help="number of machines sampled from the uncertain parameters")
    ] = 64,
    seed: Annotated[int, typer.Option(min=0, help="random seed")] = 1,
    format: Annotated[str, choice(prediction_report.FORMATS, "output format")] = "text",
) -> None:
    """Predict throughput by task count on another machine, with an interval and its limiting factor.

    Example: `bigiron predict s --machine xeon-5418y-x2 --one-task 2.0e6`
    """
    refuse_rate(one_task)
    points = measured_points.read(measured, one_task) if measured else None
    found = prediction.predict(
        store.open_study(study),
        machine,
        doublings("--tasks", tasks) if tasks is not None else [],
        one_task=one_task,
        measured=points,
        samples=samples,
        seed=seed,
        lock=lock,
        spread=spread,
    )
    print(prediction_report.FORMATS[format](found), end="")
