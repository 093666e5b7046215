"""A PostgreSQL of its own, on a Unix socket: Debian's programs, and nobody else's data."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))


class Cluster:
    """A running server; ``url`` names one of its databases."""

    def __init__(self, programs: Path, folder: Path, user: str) -> None:
        self._programs, self._folder, self.user = programs, folder, user
        self.data = folder / "data"

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{self.user}@/{database}?host={self._folder}"

    def run(self, *command: str) -> None:
        done = subprocess.run(
            [*_as_user(self.user), str(self._programs / command[0]), *command[1:]],
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout

    def start(self) -> None:
        log = str(self._folder / "log")
        options = f"-c listen_addresses= -c unix_socket_directories={self._folder}"
        self.run("pg_ctl", "-D", str(self.data), "-l", log, "-o", options, "-w", "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "stop")

    def make_database(self, name: str) -> str:
        self.run("createdb", "-h", str(self._folder), "-U", self.user, name)
        return self.url(name)


def missing() -> str:
    """Return why no server can be started here; empty if one can."""
    if not _DEBIAN:
        return "no PostgreSQL server: apt-get install postgresql"
    if os.getuid() == 0 and not _server_user():
        return "PostgreSQL refuses to run as root, and there is no user postgres"
    return ""


def _server_user() -> str:
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return ""


def _as_user(user: str) -> Sequence[str]:
    if os.getuid() != 0:
        return ()
    return ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")


@contextmanager
def running() -> Iterator[Cluster]:
    """Start a server, and leave nothing of it."""
    user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    # Not pytest's own folder: its path may be too long for a socket, and closed to others.
    folder = Path(tempfile.mkdtemp(prefix="dlperf-postgresql-"))
    try:
        if os.getuid() == 0:
            shutil.chown(folder, user, user)
        cluster = Cluster(_DEBIAN[-1], folder, user)
        cluster.run("initdb", "-D", str(cluster.data), "-A", "trust", "-U", user, "--no-sync")
        cluster.start()
        try:
            yield cluster
        finally:
            if (cluster.data / "postmaster.pid").exists():
                cluster.stop()
    finally:
        shutil.rmtree(folder)
