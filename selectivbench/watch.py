"""``selectivbench watch``: the trainings of a records folder, live on a terminal, else once as text."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from typing import TextIO

from selectivbench.errors import UsageError, explain
from selectivbench.sparkline import sparkline
from selectivbench.store import SESSION
from selectivbench.tracking.reading import Followed, read

HEAD = ("training", "state", "step", "loss", "", "accuracy", "took", "left")
HOME, BELOW, LINE_END = "\033[H", "\033[J", "\033[K"
FULL_SCREEN, NORMAL_SCREEN = "\033[?1049h\033[?25l", "\033[?25h\033[?1049l"
EVERY = 1.0
"""Seconds between two looks."""


def watch(records: Path, stream: TextIO, once: bool = False) -> str:
    """Show the trainings of a records folder until Ctrl-C or SIGTERM; what was last seen comes back.

    Where ``stream`` is no terminal, or with ``once``, that is all.
    """
    session = records / SESSION
    if not session.is_dir():
        remedy = "pass what --selectiv-out was given"
        raise UsageError(explain("records folder", str(records), "one that a run has made", remedy))
    if not once and stream.isatty():
        with _screen(stream), _ended_by_sigterm():
            _live(session, stream, time.sleep)
    return "\n".join(table(read(session), time.time()))


def _live(session: Path, stream: TextIO, wait: Callable[[float], None]) -> None:
    try:
        while True:
            size = get_terminal_size()
            lines = table(read(session), time.time(), room=size.lines - 1)
            shown = "".join(line[: size.columns] + LINE_END + "\r\n" for line in lines)
            stream.write(HOME + shown + BELOW)
            stream.flush()
            wait(EVERY)
    except KeyboardInterrupt:
        return


def table(runs: Sequence[Followed], now: float, room: int = 40) -> list[str]:
    """Lines of text, at most ``room``: what runs now first, then what ended last."""
    if not runs:
        return ["nothing has run yet"]
    ordered = sorted(runs, key=lambda run: (run.state != "running", -run.latest))
    rows = [HEAD, *(_cells(run, now) for run in ordered[: max(1, room - 2)])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    running = sum(run.state == "running" for run in runs)
    left_out = len(runs) - len(rows) + 1
    tail = f"{running} of {len(runs)} running" + (f", {left_out} not shown" if left_out else "")
    return [*(line.rstrip() for line in lines), tail]


def _cells(run: Followed, now: float) -> tuple[str, ...]:
    points = run.points
    figures = [point.accuracy for point in points if point.accuracy is not None]
    running, state = run.state == "running", _state(run)
    return (
        _plain(run.name),
        _plain(state),
        f"{points[-1].step if points else 0}/{run.steps}",
        f"{points[-1].loss:.3f}" if points else "-",
        sparkline([point.loss for point in points]),
        f"{figures[-1]:.3f}" if figures else "-",
        _duration((now if running else run.latest) - run.began),
        _duration(_left(run, now)) if points and state == "training" else "-",
    )


def _state(run: Followed) -> str:
    if run.state != "running":
        return ", ".join(dict.fromkeys(run.statuses)) or "stopped"
    trained = run.points and run.points[-1].step >= run.steps
    return "evaluating" if trained else "training"


def _left(run: Followed, now: float) -> float:
    """Seconds of training left, at the pace so far."""
    done = run.points[-1].step
    pace = (run.trained_until - run.began) / max(1, done)
    return max(0.0, pace * (run.steps - done) - (now - run.trained_until))


def _duration(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return (
        f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d}"
    )


def _plain(text: str) -> str:
    """Names come from files; none may command a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


@contextmanager
def _screen(stream: TextIO) -> Iterator[None]:
    """The terminal's second screen, so that the first one is as it was in the end."""
    stream.write(FULL_SCREEN)
    try:
        yield
    finally:
        stream.write(NORMAL_SCREEN)
        stream.flush()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM is taken for Ctrl-C, so that the terminal is put back."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
