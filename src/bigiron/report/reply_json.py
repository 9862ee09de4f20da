"""A judgement as JSON (docs/reference/schema.md)."""

from dataclasses import asdict
from typing import Any

from bigiron.judge.change import CountChange
from bigiron.judge.second_opinion import Opinion
from bigiron.report.formats.listing import json_text


def as_json(opinion: Opinion) -> str:
    """The whole judgement."""
    mail, found, predicted = opinion.mail, opinion.judgement, opinion.predicted
    document: dict[str, Any] = {
        "commit": mail.new.id,
        "base": mail.base.id if mail.base else None,
        "kernels": list(opinion.names),
        "commits": opinion.commits,
        "metric": mail.metric,
        "reported": mail.change,
        "workload": opinion.workload,
        "mode": opinion.mode or None,
        "better": _is_better(opinion),
        "share": found.share if found and found.changes else None,
        "explaining": found.explaining if found and found.changes else None,
        "path_length": _path_length(opinion),
        "kind": found.kind if found else "neither",
        "same": opinion.same or None,
        "against_the_report": found.against_the_report if found else False,
        "cpus": found.cpus if found else None,
        "tasks": found.tasks if found else None,
        "at_tasks": found.at_tasks if found else None,
        "instructions_per_op": list(found.work) if found else None,
        "accesses_per_op": list(found.accesses) if found else None,
        "changes": [_as_item(change) for change in found.changes] if found else [],
        "left_out": list(found.left_out) if found else [],
        "predicted": (
            {
                "tasks": predicted.tasks,
                "machine": predicted.machine,
                "from": "counts" if predicted.why_counts else "trace",
                "why_counts": predicted.why_counts or None,
                "change": predicted.change.value,
                "low": predicted.change.low,
                "high": predicted.change.high,
                "reported_inside": predicted.fits,
                "tells_sign": predicted.tells_sign,
                "weighed": list(predicted.weighed),
            }
            if predicted
            else None
        ),
        "not_predicted": opinion.not_predicted or None,
        "not_looked_at": opinion.not_considered,
        "not_understood": [{"line": at, "text": text} for at, text in mail.unknown],
        "notes": mail.notes,
        "elsewhere": [asdict(one) for one in mail.elsewhere],
        "further": [
            {
                "number": one.number,
                "metric": one.mail.metric,
                "reported": one.mail.change,
                "benchmark": one.mail.benchmark,
            }
            for one in opinion.further
        ],
        "study": opinion.study or None,
    }
    return json_text(document)


def _is_better(opinion: Opinion) -> bool | None:
    found = opinion.judgement
    return found.share < 0 if found and found.share else None


def _path_length(opinion: Opinion) -> dict[str, float | None] | None:
    reported, counted = opinion.instructions
    return None if reported is None else {"reported": reported, "counted": counted}


def _as_item(change: CountChange) -> dict[str, Any]:
    rule = change.rule.name if change.rule else None
    item = {**asdict(change), "rule": rule, "is_luck": change.is_luck, "locks": _held(change)}
    del item["queue"]
    return item


def _held(change: CountChange) -> list[dict[str, Any]]:
    """The locks that are held for longer, or for less, by a change of instructions."""
    return [
        {"object": lock.object, "taken": [lock.before, lock.after], "held": lock.held, "share": lock.share}
        for lock in change.locks
    ]
