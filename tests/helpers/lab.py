"""A cluster on one machine: nodes in namespaces of their own, joined by a bridge, with sshd.

Each node has its own network, host name, processes and mounts; files are shared, unless a
folder of a node is made private. Nothing is put onto the host's own network. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import late_frames

_SSHD = "/usr/sbin/sshd"
_PROGRAMS = ("ip", "taskset", "tc", "nsenter", "unshare", "ssh", "ssh-keygen", _SSHD)


def missing() -> str:
    """Return why no lab can be built here; empty if one can."""
    absent = [name for name in _PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"no {', '.join(absent)} (Debian: openssh-server iproute2 util-linux)"
    if os.geteuid() != 0:
        return "not root: namespaces of networks and processes cannot be made"
    # What a node is and what joins nodes: some containers allow the one without the other.
    joined = (
        "ip link add dlb type bridge && ip link add dlv0 type veth peer name dlv1 && "
        "mount -t tmpfs none /run && ip netns add dln"
    )
    tried = subprocess.run(
        ["unshare", "--net", "--pid", "--mount", "--uts", "--fork", "sh", "-c", joined],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if tried.returncode == 0 else f"no namespaces: {tried.stderr.strip()}"


@contextlib.contextmanager
def a_lab(*, one_core: bool = False) -> Iterator[Lab]:
    """Make two nodes, with ssh between them; skip, with the reason, where none can be made."""
    reason = missing()
    if reason:
        pytest.skip(f"no cluster can be built here: {reason}")
    made = Lab(2, one_core=one_core)
    try:
        yield made
    finally:
        made.close()


class Lab:
    """``nodes`` nodes named ``node1`` …; close it to leave nothing behind."""

    def __init__(self, nodes: int = 2, *, one_core: bool = False) -> None:
        """Make the nodes; ``one_core``: each may use one core, and not what others need."""
        self.nodes = nodes
        self._cores = sorted(os.sched_getaffinity(0)) if one_core else []
        self.base = Path(tempfile.mkdtemp(prefix="dlperf-lab-"))
        self.hub = f"dlh{os.getpid()}"
        self._inits: dict[int, subprocess.Popen[bytes]] = {}
        #: What delays frames, where something does.
        self._delay: subprocess.Popen[bytes] | None = None
        try:
            self._make_keys()
            _run("ip", "netns", "add", self.hub)
            self._hub("ip", "link", "add", "bridge0", "type", "bridge")
            self._hub("ip", "link", "set", "bridge0", "up")
            for number in range(1, nodes + 1):
                self._add(number)
        except BaseException:
            self.close()
            raise

    def name(self, number: int) -> str:
        """Return the host name of a node, counted from 1."""
        return f"node{number}"

    def address(self, number: int) -> str:
        """Return the address of a node."""
        return f"10.77.0.{number}"

    @property
    def runtime(self) -> Path:
        """A folder for leases that each node has for itself."""
        return self.base / "runtime"

    @property
    def ssh_config(self) -> Path:
        """The file for ``ssh -F``."""
        return self.base / "ssh_config"

    def _make_keys(self) -> None:
        for key in ("id", "host_key"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.base / key))
        shutil.copy(self.base / "id.pub", self.base / "authorized_keys")
        host_key = (self.base / "host_key.pub").read_text(encoding="ascii").split()[:2]
        known, hosts = [], ["127.0.0.1 localhost"]
        for number in range(1, self.nodes + 1):
            name, address = self.name(number), self.address(number)
            known.append(f"{name},{address} {' '.join(host_key)}")
            hosts.append(f"{address} {name}")
        (self.base / "known_hosts").write_text("\n".join(known) + "\n", encoding="ascii")
        (self.base / "hosts").write_text("\n".join(hosts) + "\n", encoding="ascii")
        self.ssh_config.write_text(
            f"IdentityFile {self.base}/id\nIdentitiesOnly yes\nUserKnownHostsFile "
            f"{self.base}/known_hosts\nStrictHostKeyChecking yes\nLogLevel ERROR\n",
            encoding="ascii",
        )
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd's own, for its children without privileges

    def _add(self, number: int) -> None:
        init = subprocess.Popen(
            [
                # However this process ends, its nodes end with it.
                "setpriv", "--pdeathsig", "KILL",
                "unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child",
                "--mount-proc", "sleep", "infinity",
            ],
            start_new_session=True,
        )  # fmt: skip
        self._inits[number] = init
        inner = self._pid(number)
        self._hub(
            "ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0",
            "netns", str(inner),
        )  # fmt: skip
        self._hub("ip", "link", "set", f"v{number}", "master", "bridge0", "up")
        for command in (
            f"hostname {self.name(number)}",
            "ip link set lo up",
            f"ip addr add {self.address(number)}/24 dev eth0",
            "ip link set eth0 up",
            f"mount --bind {self.base}/hosts /etc/hosts",
        ):
            self.check(number, *shlex.split(command))
        # Leases are those of a host, and files are shared here.
        for folder in (self.runtime, Path(f"/tmp/pytest-dlperf-{os.getuid()}")):
            folder.mkdir(mode=0o700, exist_ok=True)
            self.make_private(number, folder)
        self.start_sshd(number)

    def start_sshd(self, number: int) -> None:
        """Start the ssh daemon of a node."""
        self.check(
            number, _SSHD, "-f", "/dev/null", "-E", f"{self.base}/sshd{number}.log",
            "-h", f"{self.base}/host_key",
            *(word for option in (
                f"ListenAddress={self.address(number)}", "UsePAM=no", "StrictModes=no",
                "PermitRootLogin=prohibit-password", "PasswordAuthentication=no",
                f"AuthorizedKeysFile={self.base}/authorized_keys",
                f"PidFile={self.base}/sshd{number}.pid",
            ) for word in ("-o", option)),
        )  # fmt: skip

    def _pid(self, number: int) -> int:
        """Return the pid, as this side sees it, of a node's first process."""
        init = self._inits[number]
        path = Path(f"/proc/{init.pid}/task/{init.pid}/children")
        end_s = time.monotonic() + 10
        while True:
            children = path.read_text(encoding="ascii").split()
            if children:
                # Before it runs sleep it has mounted /proc, and made its namespaces.
                command = Path(f"/proc/{children[0]}/comm").read_text(encoding="ascii").strip()
                if command == "sleep":
                    return int(children[0])
            if time.monotonic() > end_s:
                raise RuntimeError(f"node {number} did not start")
            time.sleep(0.01)

    @property
    def alive(self) -> list[int]:
        """Return the nodes that have power."""
        return sorted(self._inits)

    def on(self, number: int, *argv: str, folder: Path | None = None) -> list[str]:
        """Return the command that runs ``argv`` on a node, in ``folder`` or where it starts."""
        pinned = (
            ["taskset", "-c", str(self._cores[(number - 1) % len(self._cores)])]
            if self._cores
            else []
        )
        return [
            *pinned,
            "nsenter", f"--target={self._pid(number)}", "--net", "--uts", "--mount", "--pid",
            f"--wd={folder or os.getcwd()}", "--", *argv,
        ]  # fmt: skip

    def start(self, number: int, *argv: str, **options: Any) -> subprocess.Popen[Any]:
        """Start ``argv`` on a node."""
        return subprocess.Popen(self.on(number, *argv), **options)

    def check(self, number: int, *argv: str) -> str:
        """Run ``argv`` on a node; return what it printed, raise if it failed."""
        return _run(*self.on(number, *argv))

    def cap(self, rate: str) -> None:
        """Limit every link to ``rate``, such as ``100mbit``, both ways."""
        limit = ("root", "tbf", "rate", rate, "burst", "64kb", "latency", "200ms")
        for number in self._inits:
            self.check(number, "tc", "qdisc", "replace", "dev", "eth0", *limit)
            self._hub("tc", "qdisc", "replace", "dev", f"v{number}", *limit)

    def uncap(self) -> None:
        """Take the limits away."""
        for number in self._inits:
            self.check(number, "tc", "qdisc", "del", "dev", "eth0", "root")
            self._hub("tc", "qdisc", "del", "dev", f"v{number}", "root")

    def delay(self, seconds: float) -> None:
        """Replace every link by one on which frames take so long, each way, until the end."""
        pids = [self._pid(number) for number in self._inits]
        for number in self._inits:
            self.check(number, "ip", "link", "del", "eth0")
        self._delay = subprocess.Popen(
            [sys.executable, late_frames.__file__, str(seconds), *map(str, pids)],
            stdout=subprocess.PIPE,
        )
        assert self._delay.stdout is not None
        if not self._delay.stdout.readline():
            raise RuntimeError("no links with a delay")
        for number in self._inits:
            self.check(number, "ip", "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            self.check(number, "ip", "link", "set", "eth0", "up")

    def link(self, number: int, *, up: bool) -> None:
        """Pull the cable of a node, or put it back."""
        self._hub("ip", "link", "set", f"v{number}", "up" if up else "down")

    def make_private(self, number: int, folder: Path) -> None:
        """Give a node an empty ``folder`` of its own in place of the shared one."""
        self.check(number, "mount", "-t", "tmpfs", "-o", "mode=0700", "tmpfs", str(folder))

    def share_again(self, number: int, folder: Path) -> None:
        """Undo ``make_private``."""
        self.check(number, "umount", "--lazy", str(folder))

    def kill(self, number: int) -> None:
        """Let a node lose its power; nothing of it runs on."""
        os.killpg(self._inits[number].pid, signal.SIGKILL)
        self._inits.pop(number).wait()

    def processes(self, number: int, text: str) -> list[str]:
        """Return the commands of a node's processes whose environment or command has ``text``."""
        listing = self.check(
            number, "sh", "-c",
            "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; "
            "tr '\\0' ' ' < $p/environ; echo; done 2>/dev/null; true",
        )  # fmt: skip
        return [
            line for line in listing.splitlines() if text in line and " sh -c for p" not in line
        ]

    def _hub(self, *argv: str) -> None:
        _run("ip", "netns", "exec", self.hub, *argv)

    def close(self) -> None:
        """End every process of the nodes, and remove what was made."""
        for init in self._inits.values():
            os.killpg(init.pid, signal.SIGKILL)
            init.wait()
        self._inits.clear()
        if self._delay is not None:
            self._delay.kill()
            self._delay.communicate()
        subprocess.run(["ip", "netns", "del", self.hub], capture_output=True, check=False)
        shutil.rmtree(self.base, ignore_errors=True)


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(argv)}: exit code {done.returncode}: {done.stderr}")
    return done.stdout
