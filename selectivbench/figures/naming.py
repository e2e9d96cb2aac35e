"""What figures call a record, in which order they stand, and which may stand beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from selectivbench.errors import UsageError, explain
from selectivbench.record import Identity, Record, with_variant
from selectivbench.tasks import TASKS


def trainings(records: Sequence[Record]) -> list[Record]:
    """Without the records whose training is another task's, where that is there: one curve, once."""
    borrowed = {task.id: task.trains_on for task in TASKS if task.trains_on != task.id}
    there = {_training(r.identity, r.identity.task) for r in records}

    def shown_elsewhere(r: Record) -> bool:
        return _training(r.identity, borrowed.get(r.identity.task)) in there

    return [r for r in records if not shown_elsewhere(r)]


def _training(who: Identity, task: str | None) -> tuple[str | None, str, str, int]:
    return task, who.variant, who.entry, who.seed


def panel_order(title: str) -> tuple[int, str, int]:
    """Panels in the order of the registry, amb8 before amb12."""
    name, _, variant = title.partition(", ")
    plain = name.rpartition(" v")[0] if name[-1:].isdecimal() else name
    names = [task.name.replace("_", " ") for task in TASKS]
    number = variant[len(variant.rstrip("0123456789")) :]
    return names.index(plain) if plain in names else len(names), name, int(number or 0)


def distinct(records: Sequence[Record]) -> Sequence[Record]:
    """The records, of which no two are of the same case: their mean would be of nothing."""
    seen: dict[tuple[object, ...], Record] = {}
    for r in records:
        who = r.identity
        case = (who.entry, who.task, who.variant, who.profile, who.seed, who.device_class)
        if case in seen:
            got = f"two of {who.entry} on {task_of(r)}, seed {who.seed}"
            raise UsageError(explain("records", got, "one of each case", "give one run's records"))
        seen[case] = r
    return records


def task_of(record: Record) -> str:
    """Panel title: the task, a version after the first, and a variant worth the name."""
    return with_variant(task_title(record), record.identity.variant, ", ")


def task_title(record: Record) -> str:
    """Task, a version after the first, and a profile or device that is not the usual one: sizes and
    machines never share a panel."""
    who = record.identity
    name, _, version = who.task.rpartition("-v")
    unusual = [p for p, usual in ((who.profile, "lite"), (who.device_class, "cpu")) if p != usual]
    place = f" ({', '.join(unusual)})" if unusual else ""
    return name.replace("_", " ") + (f" v{version}" if version != "1" else "") + place


def metric_of(records: Sequence[Record]) -> str:
    return " or ".join(dict.fromkeys(r.metric.replace("_kl", " KL") for r in records))


def where_of(records: Sequence[Record]) -> str:
    places = dict.fromkeys(f"{r.identity.profile}, {r.identity.device_class}" for r in records)
    return f" ({'; '.join(places)})"
