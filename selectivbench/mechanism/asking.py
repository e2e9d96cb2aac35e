"""What ``selectivbench probe`` is asked for, and how it is done."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from selectivbench import atomic, machine
from selectivbench.errors import RecordError, UsageError, explain, near
from selectivbench.job import Job
from selectivbench.mechanism.probing import Wanted, probe
from selectivbench.mechanism.report import Probe, table
from selectivbench.profiles import get_profile
from selectivbench.record import Record
from selectivbench.sandbox import levels
from selectivbench.sandbox.launchers import Launchers
from selectivbench.saved import SavedModels
from selectivbench.submission import load
from selectivbench.tasks import get_task
from selectivbench.tasks.base import KINDS
from selectivbench.tracking import NullTracker

SAME = 1e-6
"""How far the probed figure may be from a record's: the same model answers the same."""


@dataclass(frozen=True)
class Asked:
    """One call. variant: None for the profile's first; steps: a cut budget, None for the whole.

    models: a folder of saved models: the model is taken from there, or kept there once it is trained.
    record: of the very training that is probed; the result is put into it. out: where JSON and arrays
    go. figures: where pictures go. isolate, device: as the plugin's options.
    """

    model: Path
    task: str
    variant: str | None = None
    profile: str = "lite"
    seed: int = 1
    steps: int | None = None
    wanted: Wanted = field(default_factory=Wanted)
    models: Path | None = None
    record: Path | None = None
    out: Path | None = None
    figures: Path | None = None
    isolate: str = "1"
    device: str = "auto"


def job_of(asked: Asked) -> Job:
    """The training that is probed."""
    task, profile = get_task(asked.task), get_profile(asked.profile)
    variants = task.variants.get(profile.name, ())
    if not variants or asked.variant not in (None, *variants):
        known = near(asked.variant or "", variants) if variants else "a task of the profile"
        raise UsageError(explain(f"variant of {task.id} in {profile.name}", asked.variant, known))
    trained = get_task(task.trains_on)
    tasks = (trained,) if trained.id == task.id else (trained, task)
    variant, device = asked.variant or variants[0], machine.resolve(asked.device)
    return Job(load(asked.model), tasks, variant, profile, asked.seed, device, asked.steps)


def drawn(found: Probe, folder: Path) -> list[Path]:
    """The figures of a probe as SVG, with their numbers as CSV."""
    from selectivbench.figures.mechanism import draw_probe
    from selectivbench.figures.page import Look

    title = f"{found.entry} on {found.task}, seed {found.seed}"
    figures = draw_probe(title, found.arrays, KINDS, found.symbol_names, Look())
    return [
        path
        for name, each in figures.items()
        for path in each.save(folder, f"{found.stem}-{name}", ("svg",))
    ]


def perform(asked: Asked) -> str:
    """Probe, write what was asked to be written, and give the table."""
    job = job_of(asked)
    if asked.record:  # what does not belong together is said before anything is trained
        _record(asked.record, job)
    launchers = Launchers(job.device.kind, levels.resolve(asked.isolate))
    try:
        launcher = launchers.of(job.submission.imports)
        models = SavedModels(asked.models) if asked.models else None
        found = probe(job, launcher, NullTracker(), asked.wanted, models)
    finally:
        launchers.close()
    written = [found.write(asked.out)] if asked.out else []
    written += drawn(found, asked.figures) if asked.figures else []
    if asked.record:
        record = _record(asked.record, job)  # as it is by now: a check may have noted its finding
        atomic.write(asked.record, with_probe(record, found).to_json().encode())
        written.append(asked.record)
    return "\n".join([table(found), *(f"wrote {path}" for path in written)])


def with_probe(record: Record, found: Probe) -> Record:
    """The record with what was found in it; RecordError where its own model answered otherwise.

    A record of several evaluations is compared by the one that was probed, and only a probe of the
    whole split can be compared.
    """
    figures = {each.split: each.accuracy for each in record.evaluations}
    if found.split not in figures or abs(figures[found.split] - found.figure) > SAME:
        got = f"{found.figure:.6f} on {found.sequences} sequences of {found.split}"
        allowed = f"the record's own {figures.get(found.split)}"
        raise RecordError(explain("figure of the probed model", got, allowed, _REMEDY))
    return replace(record, probe=found.for_record())


_REMEDY = "probe the whole split, on the machine and versions of the record"


def _record(path: Path, job: Job) -> Record:
    """The record of the job's last task."""
    try:
        record = Record.from_json(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(explain("--record", str(path), "a record's JSON file")) from error
    wanted = job.identity(job.tasks[-1])
    if record.identity != wanted:
        its = asdict(record.identity)
        differs = [name for name, value in asdict(wanted).items() if its[name] != value]
        remedy = f"it differs in {', '.join(differs)}"
        raise UsageError(explain("--record", path.name, "a record of this very training", remedy))
    return record
