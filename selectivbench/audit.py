"""The audit: the same training on seeds that nobody could know, and the gap to the public score.

Seeds come from a secret salt. Its *commitment* (a hash) is published before, and the salt itself when
it is replaced, so that anyone can check afterwards that the seeds were not chosen. A submission that
carries its own copy of the generator and the public seeds scores high in public and not here.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

from selectivbench.audited import Audited, Gap
from selectivbench.errors import UsageError, explain
from selectivbench.machine import resolve
from selectivbench.profiles import get_profile
from selectivbench.record import Identity, Record
from selectivbench.runner import Job, run
from selectivbench.sandbox import levels
from selectivbench.sandbox.launchers import Launchers
from selectivbench.store import RecordStore
from selectivbench.submission import find_files, load
from selectivbench.tasks import Task, get_task
from selectivbench.thresholds import bar_for
from selectivbench.tracking import NullTracker

SEEDS = 3
SEED_BITS = 52
"""Seeds stay exact in JSON that a browser reads, and are too many to try."""
LEAST_SALT = 16
LEAST_GAP = 0.1
"""Scores of two grammars differ by less than this for reasons of their own."""
STANDARD_ERRORS = 3.0


@dataclass(frozen=True)
class Audit:
    """What to audit: files, tasks, and where the public records are and the secret ones go."""

    salt: bytes
    models: tuple[Path, ...]
    tasks: tuple[str, ...]
    profile: str
    records: Path
    out: Path
    isolate: str
    steps: int | None = None


def commitment(salt: bytes) -> str:
    """What is published before: it fixes the salt and does not tell it."""
    return hashlib.sha256(b"selectivbench audit v1\0" + salt).hexdigest()


def seeds(salt: bytes, count: int = SEEDS) -> tuple[int, ...]:
    """The audit's seeds; different salts share none, bar a chance of 2**-50."""
    words = [hashlib.blake2b(b"seed %d" % i, key=salt[:64], digest_size=8) for i in range(count)]
    return tuple(int.from_bytes(word.digest(), "little") % 2**SEED_BITS for word in words)


def read_salt(path: Path) -> bytes:
    """The salt of a file; a short one could be guessed from the commitment."""
    try:
        salt = path.read_bytes().strip()
    except OSError as error:
        allowed = "a file with the secret salt; `selectivbench audit --new-salt FILE` makes one"
        raise UsageError(explain("--salt-file", f"{path} ({error.strerror})", allowed)) from error
    if len(salt) < LEAST_SALT:
        raise UsageError(explain("salt in bytes", len(salt), f"{LEAST_SALT} or more"))
    return salt


def new_salt(path: Path) -> str:
    """Write a new salt that only its owner can read, and say what to publish."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise UsageError(
            explain("--new-salt", f"{path} ({error.strerror})", "a new file")
        ) from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32) + "\n")
    return f"{path} is written; keep it secret and publish its commitment:\n" + commitment(
        read_salt(path)
    )


def allowed_gap(task: str, profile: str, variant: str, public: int, audit: int) -> float:
    """Three standard errors of the difference of two means, or LEAST_GAP if that is more."""
    bar = bar_for(task, profile, variant)
    sigma = bar.sigma if bar else 0.0
    return max(LEAST_GAP, STANDARD_ERRORS * sigma * math.sqrt(1 / public + 1 / audit))


def perform(audit: Audit) -> str:
    """Run what is missing, compare, write ``audit.json``, and give a table."""
    isolation = levels.resolve(audit.isolate)
    known = partial(Audited, commitment(audit.salt), isolation.name)
    _keep(audit, known(()))  # before any secret record: the folder must never pass for a public one
    launchers = Launchers(resolve("auto").kind, isolation)
    try:
        gaps = list(_gaps(audit, launchers))
    finally:
        launchers.close()
    _keep(audit, known(tuple(gaps)))
    return table(audit.salt, gaps)


def _keep(audit: Audit, found: Audited) -> None:
    """Write ``audit.json``, with what the same salt gave before; another salt's is set aside."""
    path = audit.out / "audit.json"
    if path.is_file():
        old = Audited.from_json(path.read_text(encoding="utf-8"))
        if old.commitment == found.commitment:
            found = old.with_gaps(found.gaps)
        else:
            path.replace(audit.out / f"audit-{old.commitment[:12]}.json")
    RecordStore(audit.out).write_text(path, found.to_json())


def table(salt: bytes, gaps: Iterable[Gap]) -> str:
    """One line for each entry and task."""
    lines = [f"commitment {commitment(salt)}"]
    for gap in gaps:
        mark = "  MARKED: public is better by too much" if gap.marked else ""
        lines.append(f"{gap.entry}  {gap}{mark}")
    return "\n".join(lines)


def _gaps(audit: Audit, launchers: Launchers) -> Iterable[Gap]:
    profile = get_profile(audit.profile)
    secret = seeds(audit.salt)
    for file in find_files(audit.models):
        for name in audit.tasks or profile.default_tasks:
            task = get_task(name)
            variant = task.variants[profile.name][0]
            jobs = [_job(audit, file, task, variant, seed) for seed in (*profile.seeds, *secret)]
            scores = [_score(job, task, audit, launchers, job.seed in secret) for job in jobs]
            count = len(profile.seeds)
            allowed = allowed_gap(task.id, profile.name, variant, count, len(secret))
            means = fmean(scores[:count]), fmean(scores[count:])
            yield _gap(jobs[0].identity(task), *means, allowed)


def _gap(who: Identity, public: float, secret: float, allowed: float) -> Gap:
    about = (who.entry, who.source_sha256, who.task, who.variant, who.profile, who.device_class)
    return Gap(*about, who.budget_digest, public, secret, allowed)


def _job(audit: Audit, file: Path, task: Task, variant: str, seed: int) -> Job:
    trained = get_task(task.trains_on)
    tasks = (trained,) if trained.id == task.id else (trained, task)
    profile = get_profile(audit.profile)
    return Job(load(file), tasks, variant, profile, seed, resolve("auto"), audit.steps)


def _score(
    job: Job,
    task: Task,
    audit: Audit,
    launchers: Launchers,
    secret: bool,
) -> float:
    """The score of a record that is there already, or of a run; a failure counts as nothing gained."""
    store = RecordStore(audit.out if secret else audit.records)
    record: Record | None = store.find(job.identity(task)).record
    if record is None:
        records = run(job, launchers.of(job.submission.imports), NullTracker(), lambda fit: fit())
        kept = [store.write(made) for made in records]
        record = next(made for made in kept if made.identity == job.identity(task))
    return 0.0 if record.score is None else record.score
