"""Start the sinks of a session, each in a process of its own, and say what became of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_dlperf.core.secret_texts import masked, secrets_of

#: All sinks of a session have to end within this time.
LIMIT_S: Final = 30.0
#: A process that nobody waits for ends itself so much later.
_AFTER_S: Final = 5


def deliver(names: Sequence[str], results: str, *, limit_s: float = LIMIT_S) -> list[str]:
    """Hand ``results``, the text of a results file, to sinks; return a line for each of them.

    Raises nothing: a sink that fails, hangs or dies has a line with ``NOT``.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="dlperf-sinks-") as folder:
            file = Path(folder) / "results.json"
            file.write_text(results, encoding="utf-8")
            with _started(names, file, limit_s) as processes:
                until_s = time.monotonic() + limit_s
                return [
                    f"sink {name}{_result_of(name, process, file, until_s)}"
                    for name, process in processes.items()
                ]
    except OSError as error:
        return [f"sink {name} NOT sent: {error.strerror}" for name in names]


@contextlib.contextmanager
def _started(
    names: Sequence[str], file: Path, limit_s: float
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Start a process for each sink; end all that are left of them, with what they started."""
    path = os.pathsep.join(os.path.abspath(entry or ".") for entry in sys.path)
    environment = {**os.environ, "PYTHONPATH": path}
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in names:
            words = [name, str(_file(file, name, "answer")), f"{int(limit_s) + _AFTER_S}"]
            with file.open("rb") as results, _file(file, name, "stderr").open("wb") as stderr:
                processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "pytest_dlperf.session.sinks.child", *words],
                    stdin=results,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    env=environment,
                    start_new_session=True,
                )
        yield processes
    finally:
        for process in processes.values():
            if process.returncode is None:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a sink, if it has not ended, and what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _result_of(name: str, process: subprocess.Popen[bytes], file: Path, until_s: float) -> str:
    try:
        code = process.wait(timeout=max(0.0, until_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        return " NOT sent: it had not ended in time, and was ended"
    finally:
        _end(process)
    if code != 0:
        lines = _read(_file(file, name, "stderr")).splitlines()
        why = lines[-1] if lines else f"its process ended with exit code {code}"
        return f" NOT sent: {without_secrets(why, os.environ)}"
    answer = _file(file, name, "answer")
    if not answer.exists():
        return " NOT sent: it ended its process itself"
    where = without_secrets(_read(answer), os.environ)
    return f": sent to {where}" if where else ": sent"


def _file(results: Path, name: str, kind: str) -> Path:
    return results.with_name(f"{name.encode().hex()}.{kind}")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip()


def without_secrets(text: str, environ: Mapping[str, str]) -> str:
    """Return one line, in which values of secret variables and passwords of URLs are masked."""
    return " ".join(masked(text, secrets_of(environ)).split())
