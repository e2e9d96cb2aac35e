"""How names and numbers are written on a page: the templates' filters, labels, environment."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from leaderboard.rank import OVERALL, Cell, Key, overall_keys
from selectivbench.metrics import z_score
from selectivbench.record import with_variant

HERE = Path(__file__).parent
CSP = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
TASK_ORDER = (*OVERALL, "memorization-v1", "next_symbol-v1", "mqar-v1", "induction-v1")


def environment() -> Environment:
    """Autoescaping for every template; an undefined name is an error, not an empty text."""
    env = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        figure=figure,
        raw=raw,
        link=link,
        slug=slug,
        z=z,
        level=level,
        steps=steps,
        task_label=task_label,
    )
    env.globals.update(csp=CSP)
    return env


def figure(value: float, form: str) -> str:
    """A number as people read it.

    >>> figure(0.98765, "score"), figure(56789, "short"), figure(1.234, "ratio")
    ('0.988', '56.8k', '1.23×')
    >>> figure(0.01234, "ms"), figure(3 << 20, "bytes"), figure(0.876, "share")
    ('12.3 ms', '3.0 MiB', '88%')
    """
    if form == "score":
        return f"{value:.3f}".replace("-", "−")
    if form == "short":
        return short(value)
    if form == "ratio":
        return f"{value:.2f}×"
    if form == "ms":
        return f"{value * 1000:.3g} ms"
    if form == "bytes":
        return f"{value / 2**20:.1f} MiB" if value >= 2**20 else f"{value:.3g} B"
    if form == "share":
        return f"{value:.0%}"
    if form == "seconds":
        return f"{value:.1f} s"
    if form == "z":
        return f"{value:+.1f}".replace("-", "−")
    return f"{value:,.0f}".replace(",", "\u202f")


def short(value: float) -> str:
    """Three digits and a unit.

    >>> short(999), short(1_000), short(56_789), short(1_234_567)
    ('999', '1k', '56.8k', '1.23M')
    """
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def raw(value: object) -> str:
    """What the sorting script reads: a plain number, or nothing where it is missing."""
    return f"{value:.6g}" if isinstance(value, int | float) else ""


def link(text: str) -> str:
    """The text where it is a web address; nothing where it is, say, javascript: or data:."""
    return (
        text
        if text.startswith(("https://", "http://")) and not set(text) & set(" \"'<>\\\n\r\t")
        else ""
    )


def slug(text: str) -> str:
    """Letters and digits only: "Gated DeltaNet" needs no "gated_deltanet" beside it."""
    return "".join(c for c in text.lower() if c.isalnum())


def z(cell: Cell) -> float | None:
    """Standard errors of the mean above the bar, by the spread of the reference runs."""
    if cell.bar is None or cell.mean is None or cell.bar.sigma <= 0:
        return None
    return z_score(cell.mean.value, cell.bar.bar, cell.mean.n, cell.bar.sigma)


def level(cell: Cell, name: str) -> float | None:
    """Mean floor or ceiling of the cell's seeds."""
    found = [value for c in cell.cases if (value := getattr(c.record, name)) is not None]
    return sum(found) / len(found) if found else None


def steps(cell: Cell) -> str:
    """Each seed's first validation at the bar, in the order of the seeds; "" where none has one."""
    found = [c.steps_to_bar for c in cell.cases]
    return ", ".join("–" if n is None else f"{n}" for n in found) if any(found) else ""


def task_title(task: str) -> str:
    """selective_copy-v1 is "selective copy"; a later version says so.

    >>> task_title("selective_copy-v1"), task_title("mqar-v2")
    ('selective copy', 'mqar v2')
    """
    name, _, version = task.rpartition("-v")
    return name.replace("_", " ") + (f" v{version}" if version != "1" else "")


def key_label(key: Key) -> str:
    """Task and variant; the variant ``base`` goes without saying."""
    task, variant = key
    return with_variant(task_title(task), variant, " ")


def task_label(cell: Cell) -> str:
    """Label of a cell's task and variant."""
    return key_label((cell.task, cell.variant))


def key_order(key: Key) -> tuple[int, str, bool, int, str]:
    """The overall tasks first, then the known ones, then the rest; of one task the variant that lite
    counts, then by number (amb8 before amb12).
    """
    task, variant = key
    place = TASK_ORDER.index(task) if task in TASK_ORDER else len(TASK_ORDER)
    return place, task, key not in overall_keys("lite"), number_in(variant) or 0, variant


def number_in(text: str) -> int | None:
    """The number at the end of a name.

    >>> number_in("amb12"), number_in("test-gap40"), number_in("base")
    (12, 40, None)
    """
    digits = text[len(text.rstrip("0123456789")) :]
    return int(digits[:9]) if digits.isascii() and digits else None
