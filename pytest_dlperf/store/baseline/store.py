"""The folder of baselines: ``<machine class>/<suite>/<case id>.json``.

Published numbers lie beside the measured ones, in ``<case id>.published.json``; no update
writes those, and nothing removes them. Profiles are in ``<case id>.profile.json``, and costs of a
step, which are of no machine, in ``cost/<suite>/<case id>.cost.json`` (``cost_file.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.codec import DecodeError
from pytest_dlperf.core.errors import BaselineError
from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.store.baseline import file_format, packages_file, profile_file
from pytest_dlperf.store.baseline.key import COST_END, PROFILE_END, PUBLISHED, Key, is_name
from pytest_dlperf.store.baseline.replace_file import locked, remove_file, replace_file

#: The suites that a wheel holds, and the published numbers beside them.
_SUITES: Final = "pytest_dlperf.suites."
_SHIPPED: Final = Path(__file__).parents[2] / "suites/baselines"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredBaseline:
    """A baseline, and the file that it was read from."""

    path: Path
    baseline: Baseline


class BaselineStore:
    """Reads and writes the baselines below ``root``, which need not exist yet.

    Every method raises ``BaselineError`` for a file that is not what it claims to be, naming
    file and field, and for a folder that cannot be read or written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        #: Files as they were read last: their stamps, and what they hold.
        self._files_read: dict[Path, tuple[tuple[int, ...], Baseline | None]] = {}

    def find(self, machine_class: str, suite: str, case_id: str) -> Baseline | None:
        """Return the measured baseline of a case; None if there is none."""
        key = Key(machine_class=machine_class, suite=suite, case_id=case_id)
        return _read(key.path(self.root), key)

    def published(self, case_id: str, suite: str, workload: str = "") -> tuple[Baseline, ...]:
        """Return the published numbers of a case, sorted by machine class.

        Those of the suites in the wheel are in the wheel as well, where ``root`` has none.
        """
        return _published(self.root, case_id, suite) or (
            _published(_SHIPPED, case_id, suite) if workload.startswith(_SUITES) else ()
        )

    def all(self) -> Iterator[StoredBaseline]:
        """Yield every stored baseline, measured and published, sorted by path."""
        entries, broken = self.readable()
        yield from entries
        if broken:
            raise broken[0]

    def readable(self) -> tuple[list[StoredBaseline], list[BaselineError]]:
        """Return what ``all`` yields, and the errors of the files that cannot be read."""
        entries: list[StoredBaseline] = []
        broken: list[BaselineError] = []
        for machine_class in _folders(self.root):
            for suite in _folders(machine_class):
                for path in _files(suite):
                    try:
                        baseline = self._read_once(path)
                    except BaselineError as error:
                        broken.append(error)
                        continue
                    if baseline is not None:  # removed since the folder was read
                        entries.append(StoredBaseline(path=path, baseline=baseline))
        return entries, broken

    def _read_once(self, path: Path) -> Baseline | None:
        """Return what a file holds; read again only after it was replaced.

        Each case of a session asks for all of them. Inode, time and size tell a file that another
        process has written from the one before; what this one writes is forgotten.
        """
        try:
            status = path.stat()
        except OSError:
            return _read(path, Key.of_path(path))  # which says what is wrong
        stamps = (status.st_ino, status.st_mtime_ns, status.st_size)
        if path not in self._files_read or self._files_read[path][0] != stamps:
            self._files_read[path] = stamps, _read(path, Key.of_path(path))
        return self._files_read[path][1]

    def write(self, baseline: Baseline) -> None:
        """Write ``baseline`` over what is stored of its case; published ones are written too."""
        key = Key.of(baseline)
        path = key.path(self.root)
        with locked(path):
            self._files_read.pop(path, None)
            _replace(path, key, baseline)

    def update(
        self,
        machine_class: str,
        suite: str,
        case_id: str,
        change: Callable[[Baseline | None], Baseline],
    ) -> Baseline:
        """Replace the measured baseline of a case by what ``change`` makes of it; return that.

        Other writers of the same case wait meanwhile. Nothing is written if ``change`` raises,
        or returns what it was given.
        """
        key = Key(machine_class=machine_class, suite=suite, case_id=case_id)
        path = key.path(self.root)
        with locked(path):
            before = _read(path, key)
            after = change(before)
            if after is not before:
                self._files_read.pop(path, None)
                _replace(path, key, after)
        return after

    def profiles(self, machine_class: str, suite: str, case_id: str) -> list[ProfileRecord]:
        """Return the profiles that are stored beside the baseline of a case; none if none are."""
        key = Key(machine_class=machine_class, suite=suite, case_id=case_id)
        return profile_file.read(self.root, key)

    def keep_profiles(
        self, machine_class: str, suite: str, case_id: str, content: bytes | None
    ) -> None:
        """Store ``content`` as the profiles of a case; None removes what is stored."""
        key = Key(machine_class=machine_class, suite=suite, case_id=case_id)
        if content is None:
            profile_file.remove(self.root, key)
        else:
            profile_file.write(self.root, key, content)

    def packages(self, machine_class: str, digest: str) -> dict[str, str]:
        """Return the installed packages of stored sessions by their digest; none if unknown."""
        return packages_file.read(self.root, machine_class).get(digest, {})

    def keep_packages(self, machine_class: str, packages: Mapping[str, str]) -> None:
        """Store the installed packages of a session, whose baselines have their digest."""
        packages_file.keep(self.root, machine_class, packages)

    def delete(self, machine_class: str, suite: str, case_id: str) -> Path:
        """Remove the measured baseline of a case, if it is there; return its path."""
        path = Key(machine_class=machine_class, suite=suite, case_id=case_id).path(self.root)
        with locked(path):
            remove_file(path)
        self.keep_profiles(machine_class, suite, case_id, None)
        return path


def _published(root: Path, case_id: str, suite: str) -> tuple[Baseline, ...]:
    keys = (
        Key(machine_class=folder.name, suite=suite, case_id=case_id, kind=PUBLISHED)
        for folder in _folders(root)
        if is_name(folder.name)
    )
    baselines = (_read(key.path(root), key) for key in keys)
    return tuple(baseline for baseline in baselines if baseline is not None)


def _read(path: Path, key: Key) -> Baseline | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BaselineError(
            f"cannot be read ({error.strerror})",
            subject=str(path),
            remedy="make it readable, or name another folder of baselines",
        ) from error
    try:
        return file_format.from_bytes(content, key)
    except DecodeError as error:
        remedy = (
            "restore the file from version control"
            if key.kind == PUBLISHED
            else "restore the file from version control, or remove it and measure again with "
            "--update-baselines"
        )
        if isinstance(error, file_format.OtherFormatError):
            remedy = f"use the version of pytest-dlperf that wrote it, or {remedy}"
        raise BaselineError(str(error), subject=str(path), remedy=remedy) from error


def _replace(path: Path, key: Key, baseline: Baseline) -> None:
    """Write ``baseline``, unless what is written could not be read again."""
    content = file_format.to_bytes(baseline)
    try:
        file_format.from_bytes(content, key)
    except DecodeError as error:
        raise BaselineError(
            f"not written: {error}",
            subject=str(path),
            remedy="this comes from the measurement, so look at the records of its runs",
        ) from error
    replace_file(path, content)


def _folders(folder: Path) -> list[Path]:
    return [path for path in _children(folder) if path.is_dir()]


def _files(folder: Path) -> list[Path]:
    return [
        path
        for path in _children(folder)
        if path.suffix == ".json"
        and not path.name.endswith((PROFILE_END, COST_END))
        and path.is_file()
    ]


def _children(folder: Path) -> list[Path]:
    """Return the children of ``folder``, sorted; hidden files are writers' temporaries."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BaselineError(
            f"cannot be read ({error.strerror})",
            subject=str(folder),
            remedy="name the folder of baselines with --dlperf-baselines",
        ) from error
