"""The list of tasks that ``selectivbench tasks`` prints: what, how large, how long."""

from __future__ import annotations

from selectivbench.profiles import PROFILES, Profile
from selectivbench.tasks import TASKS, Task

HEAD = ("task", "profile", "variants", "steps x batch", "longest", "classes", "minutes", "default")


def table() -> str:
    """One line for each task and profile; minutes are the LSTM's, one seed on one core."""
    rows = [_row(task, profile) for task in TASKS for profile in PROFILES.values()]
    cells = [HEAD, *(row for row in rows if row is not None)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEAD))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    summaries = [f"{task.name}: {task.summary}" for task in TASKS]
    note = "minutes: one training of submissions/lstm.py, measured on one core (-: not measured)"
    return "\n".join([*(line.rstrip() for line in lines), "", *summaries, "", note])


def _row(task: Task, profile: Profile) -> tuple[str, ...] | None:
    variants = task.variants.get(profile.name, ())
    if not variants:
        return None
    data = task.dataset(profile.name, variants[0], profile.seeds[0])
    budget = profile.plan(task.trains_on.rpartition("-v")[0]).budget
    borrowed = task.trains_on != task.id
    minutes = profile.minutes.get(task.name)
    return (
        task.id,
        profile.name,
        " ".join(variants),
        f"as {task.trains_on}" if borrowed else f"{budget.steps} x {budget.batch_size}",
        f"{data.max_length} steps",
        str(data.n_classes),
        "-" if minutes is None else f"{minutes:.1f}",
        "yes" if task.name in profile.default_tasks else "",
    )
