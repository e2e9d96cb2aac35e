"""Find, read and validate a submission file without running it."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from selectivbench.errors import SubmissionError, UsageError, explain, near

LITERALS = ("NAME", "PAPER", "AUTHORS", "TAGS", "TRAIN", "EXPECTED_FAIL")
FUNCTIONS = ("Mixer", "Model", "state_size", "probe")
TRAIN_BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType({"lr": (1e-5, 1e-1)})
"""Hyper-parameters that a file may declare, with their bounds (both allowed)."""
DTYPES = ("float32", "bfloat16")
"""What TRAIN's ``dtype`` may be; only the paper profile heeds it."""
LARGEST_FILE = 256 * 1024


@dataclass(frozen=True)
class Submission:
    """One submission file, read but not run."""

    id: str
    path: Path
    source: str
    kind: Literal["mixer", "model"]
    name: str
    paper: str = ""
    authors: str = ""
    tags: tuple[str, ...] = ()
    train: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    dtype: str | None = None
    """bfloat16, or None for float32."""
    expected_fail: tuple[str, ...] = ()
    imports: frozenset[str] = frozenset()
    """Top-level packages that the file imports; the sandbox loads the slow ones ahead."""

    @property
    def sha256(self) -> str:
        """Of the file's text in UTF-8."""
        return hashlib.sha256(self.source.encode()).hexdigest()


def find_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The files of files and folders, sorted by stem; a stem may stand for one file only."""
    found: dict[str, Path] = {}
    for path in paths:
        for file in _files(path):
            twin = found.setdefault(file.stem, file)
            if twin.resolve() != file.resolve():
                what, got = f"two submissions are called {file.stem!r}", f"{twin} and {file}"
                raise UsageError(explain(what, got, "one file for each name", "rename one of them"))
    return tuple(found[stem] for stem in sorted(found))


def load(path: Path) -> Submission:
    """Read one file; every defect that can be seen without running it is a SubmissionError."""
    source = _read(path)
    try:
        tree = ast.parse(source, filename=str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = f" (line {line})" if line else ""
        message = getattr(error, "msg", None) or str(error)
        raise SubmissionError(f"{path}{where}: not valid Python: {message}.") from error
    names = _top_level(tree)
    _refuse_misspelt(path, names)
    literals = _literals(path, tree)
    train = dict(literals.get("TRAIN", {}))
    dtype = train.pop("dtype", "float32")
    return Submission(
        id=path.stem,
        path=path,
        source=source,
        kind=_kind(path, names),
        name=literals.get("NAME", path.stem),
        paper=literals.get("PAPER", ""),
        authors=literals.get("AUTHORS", ""),
        tags=tuple(literals.get("TAGS", ())),
        train=MappingProxyType(train),
        dtype=None if dtype == "float32" else dtype,
        expected_fail=tuple(literals.get("EXPECTED_FAIL", ())),
        imports=_imports(tree),
    )


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(p for p in path.glob("*.py") if not p.name.startswith("_"))
        if not files:
            raise UsageError(
                explain("folder of submissions", str(path), "a folder with *.py files in it")
            )
        return files
    if not path.is_file() or path.suffix != ".py":
        siblings = [str(p) for p in sorted(path.parent.glob("*.py"))[:20]]
        raise UsageError(
            explain("submission", str(path), near(str(path), siblings) or "an existing .py file")
        )
    return [path]


def _read(path: Path) -> str:
    target = path.resolve()
    if path.is_symlink() and not target.is_relative_to(path.parent.resolve()):
        remedy = "what it points to would be published; pass the file itself"
        raise SubmissionError(
            explain(f"{path}: symbolic link to", str(target), "a file of its own folder", remedy)
        )
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise SubmissionError(
            explain(
                f"{path}: size in bytes", size, f"{LARGEST_FILE} or less", "weights do not belong"
            )
        )
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SubmissionError(
            f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8."
        ) from error


def _top_level(tree: ast.Module) -> frozenset[str]:
    """Names that the module binds at its top level."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {t.id for t in targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return frozenset(names)


def _refuse_misspelt(path: Path, names: frozenset[str]) -> None:
    """NAMES, TAG, Mixxer, state_sizes …: near a known name, but not it."""
    known = (*LITERALS, *FUNCTIONS)
    for name in sorted(names - set(known)):
        close = get_close_matches(name, known, n=1, cutoff=0.85)
        if close and name.isupper() == close[0].isupper() and close[0] not in names:
            raise SubmissionError(
                f"{path}: {name} is no option of a submission; did you mean {close[0]}?"
            )


def _kind(path: Path, names: frozenset[str]) -> Literal["mixer", "model"]:
    has = [name for name in ("Mixer", "Model") if name in names]
    if len(has) != 1:
        raise SubmissionError(
            explain(
                f"{path}: top-level names",
                " and ".join(has) or "neither Mixer nor Model",
                "exactly one of Mixer(spec) and Model(spec)",
            )
        )
    return "mixer" if has == ["Mixer"] else "model"


def _literals(path: Path, tree: ast.Module) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and target.id in LITERALS:
                try:
                    values[target.id] = ast.literal_eval(node.value)
                except (ValueError, TypeError, RecursionError) as error:
                    why = "since it is read without running the file"
                    raise SubmissionError(
                        f"{path}: {target.id} must be a literal, {why}."
                    ) from error
    for name, value in values.items():
        _check_literal(path, name, value)
    return values


def _check_literal(path: Path, name: str, value: object) -> None:
    if name in ("NAME", "PAPER", "AUTHORS"):
        if not isinstance(value, str) or len(value) > 300 or not value.isprintable():
            raise SubmissionError(
                explain(f"{path}: {name}", value, "one line of text, 300 characters at most")
            )
    elif name in ("TAGS", "EXPECTED_FAIL"):
        if not (isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)):
            raise SubmissionError(explain(f"{path}: {name}", value, "a list of strings"))
    else:
        _check_train(path, value)


def _check_train(path: Path, value: object) -> None:
    if not isinstance(value, dict):
        raise SubmissionError(explain(f"{path}: TRAIN", value, 'a dict such as {"lr": 3e-3}'))
    if (dtype := value.get("dtype", DTYPES[0])) not in DTYPES:
        raise SubmissionError(explain(f"{path}: TRAIN['dtype']", dtype, near(str(dtype), DTYPES)))
    for key, number in value.items():
        if key == "dtype":
            continue
        if key not in TRAIN_BOUNDS:
            known = near(str(key), (*TRAIN_BOUNDS, "dtype"))
            raise SubmissionError(explain(f"{path}: TRAIN key", key, known))
        low, high = TRAIN_BOUNDS[key]
        if (
            isinstance(number, bool)
            or not isinstance(number, int | float)
            or not low <= number <= high
        ):
            raise SubmissionError(
                explain(f"{path}: TRAIN[{key!r}]", number, f"{low:g} to {high:g}")
            )


def _imports(tree: ast.Module) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return frozenset(found)
