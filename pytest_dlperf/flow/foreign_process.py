"""Names a process of somebody else, as far as this process can see it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from pytest_dlperf.measure.nvml import counts_our_processes


def process_words(pid: int) -> str:
    """Return ``pid 123 (user: program script)``, with what is not known left out.

    Of its command line the program and what it runs alone: arguments may be secret.
    """
    if not counts_our_processes():
        return f"pid {pid} of the host, which this container cannot look at,"
    folder = Path(f"/proc/{pid}")
    try:
        uid = folder.stat().st_uid
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return f"pid {pid}"
    return f"pid {pid} ({_user(uid)}: {_command(words) or 'command not known'})"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _command(words: list[str]) -> str:
    program, *rest = [Path(word).name for word in words if word] or [""]
    is_script = bool(rest) and program.startswith("python") and rest[0].endswith(".py")
    return f"{program} {rest[0]}" if is_script else program


def siblings() -> set[int]:
    """Return this process, and under pytest-xdist the other processes of its session.

    What they have on a GPU is the tests' own doing, and nothing to wait for.
    """
    found = {os.getpid()}
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return found
    parent = os.getppid()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            continue  # it ended while we looked
        if int(fields.rpartition(")")[2].split()[1]) == parent:
            found.add(int(entry.name))
    return found | {parent}
