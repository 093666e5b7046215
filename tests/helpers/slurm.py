"""A real Slurm on the lab's nodes: the controller on the first, a daemon on each."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.helpers import lab as cluster

_PROGRAMS = ("/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "sbatch", "squeue")


def missing() -> str:
    """Return why no Slurm can be built here; empty if one can."""
    absent = [name for name in _PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"no {', '.join(absent)} (Debian: slurmctld slurmd slurm-client munge)"
    return cluster.missing()


class Slurm:
    """Slurm without accounting, so without sacct; close it before its lab."""

    def __init__(self, lab: cluster.Lab) -> None:
        self.lab = lab
        self.folder = lab.base / "slurm"
        for name in ("state", "log", "run", "munge", *(f"spool/{n}" for n in self._names())):
            (self.folder / name).mkdir(parents=True)
        # munged refuses a folder of its socket that others cannot enter
        for path in (lab.base, self.folder, self.folder / "munge"):
            path.chmod(0o755)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.conf.write_text(self._conf(), encoding="ascii")
        munge = self.folder / "munge"
        # The socket is a file, which all nodes share
        lab.check(
            1, "/usr/sbin/munged", "--force", f"--key-file={key}", f"--socket={munge}/sock",
            f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed",
        )  # fmt: skip
        lab.check(1, "/usr/sbin/slurmctld", "-f", str(self.conf))
        for number in range(1, lab.nodes + 1):
            lab.check(number, "/usr/sbin/slurmd", "-f", str(self.conf), "-N", lab.name(number))
        self._await_idle()

    @property
    def conf(self) -> Path:
        """The file that SLURM_CONF names."""
        return self.folder / "slurm.conf"

    def _names(self) -> list[str]:
        return [self.lab.name(number) for number in range(1, self.lab.nodes + 1)]

    def _conf(self) -> str:
        s = self.folder
        nodes = "\n".join(
            f"NodeName={self.lab.name(n)} NodeHostname={self.lab.name(n)} "
            f"NodeAddr={self.lab.address(n)} Port=17001 CPUs=2 RealMemory=4000 State=UNKNOWN"
            for n in range(1, self.lab.nodes + 1)
        )
        names = ",".join(self._names())
        return f"""ClusterName=lab
AuthType=auth/munge
AuthInfo=socket={s}/munge/sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={s}/state
SlurmctldPidFile={s}/run/ctld.pid
SlurmdPidFile={s}/run/slurmd.%n.pid
SlurmdSpoolDir={s}/spool/%n
SlurmctldLogFile={s}/log/ctld.log
SlurmdLogFile={s}/log/slurmd.%n.log
SlurmctldPort=16817
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=60
KillWait=5
InactiveLimit=0
MinJobAge=300
PropagateResourceLimits=NONE
SlurmctldHost={self.lab.name(1)}({self.lab.address(1)})
{nodes}
PartitionName=debug Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
PartitionName=short Nodes={self.lab.name(2)} MaxTime=1 State=UP OverSubscribe=NO
"""

    def run(self, *argv: str) -> str:
        """Run one of Slurm's commands on the first node; return what it printed."""
        return self.lab.check(1, "env", f"SLURM_CONF={self.conf}", *argv)

    def jobs(self, *states: str) -> list[str]:
        """Return the names of the jobs in these states, in the order of their numbers."""
        lines = self.run(
            "squeue", "--noheader", f"--states={','.join(states)}", "--sort=i", "--format=%j"
        )
        return lines.split()

    def _await_idle(self) -> None:
        end_s = time.monotonic() + 120
        while True:
            try:
                states = self.run("sinfo", "--noheader", "--Node", "--partition=debug", "-o", "%T")
            except RuntimeError:
                states = ""
            if states.split() == ["idle"] * self.lab.nodes:
                return
            if time.monotonic() > end_s:
                logs = "".join(path.read_text() for path in self.folder.glob("log/*"))
                raise RuntimeError(f"Slurm does not come up: {states!r}\n{logs}")
            time.sleep(0.2)

    def close(self) -> None:
        """End the daemons; the lab's own end would do so too."""
        for name in self.folder.glob("run/*.pid"):
            number = 2 if "node2" in name.name else 1
            subprocess.run(
                self.lab.on(number, "kill", name.read_text(encoding="ascii").strip()),
                capture_output=True,
                check=False,
            )
