"""Cases as jobs of a real Slurm with two nodes; pytest is typed on the first of them."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_turns import PAIR, check_turns
from tests.helpers.cluster import check_trained
from tests.helpers.frozen import parent_of, processes
from tests.helpers.lab import Lab
from tests.helpers.processes import heed_interrupts
from tests.helpers.slurm import Slurm, missing

REPOSITORY = Path(__file__).parents[2]
TRAINS = """
    import pytest
    @pytest.mark.dlperf("workloads:build", precision="fp32", layout=["1n1c", "1n2c"],
                        batch_size_per_device=8, iterations=30, warmup=10, runs=1, timeout_s=120.0)
    def test_net(dlperf):
        dlperf.run()
"""
ON_TWO_NODES = TRAINS.replace('["1n1c", "1n2c"]', '["2n1c"], speedup=None')
#: One case a word: what a shell does in place of a training.
DOES = """
    import pytest
    @pytest.mark.dlperf(suite="{name}", command=["sh", "-c", {does!r}], launcher="none",
                        framework="torch", precision="fp32", layout="1n1c",
                        batch_size_per_device=1, runs=1, timeout_s=300.0, size="tiny")
    def test_{name}(dlperf):
        dlperf.run()
"""
SLEEPS = "echo asleep; exec sleep 1000"
#: On the second node, beside others there.
ASIDE = ("--dlperf-share-host", "--dlperf-slurm=--nodelist=node2")


def send(process: subprocess.Popen[str], number: int) -> None:
    """Send a signal to the pytest that ``nsenter`` has started."""
    child = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
    os.kill(int(child), number)


class Session:
    """A pytest on the first node, with a folder of its own."""

    def __init__(self, slurm: Slurm, folder: Path) -> None:
        self.slurm, self.folder = slurm, folder
        self._started: list[subprocess.Popen[str]] = []
        folder.mkdir(parents=True)

    def write(self, text: str) -> None:
        (self.folder / "test_net.py").write_text("\n".join(
            line.removeprefix("    ") for line in text.splitlines()
        ))  # fmt: skip

    def does(self, **commands: str) -> None:
        self.write("".join(DOES.format(name=k, does=does) for k, does in commands.items()))

    def start(self, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests" / "torch")])
        words = self.slurm.lab.on(
            1, *before, sys.executable, "-m", "pytest", "-p", "no:cacheprovider",
            "--dlperf-scheduler=slurm", "--dlperf-json=r.json", *arguments,
        )  # fmt: skip
        with (self.folder / "pytest.log").open("w") as log:
            process = subprocess.Popen(
                [word if "--wd=" not in word else f"--wd={self.folder}" for word in words],
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=self.folder,
                env={
                    **os.environ,
                    "SLURM_CONF": str(self.slurm.conf),
                    "PYTHONPATH": path,
                    "DLPERF_RUNTIME_DIR": str(self.slurm.lab.runtime),
                    "PYTEST_ADDOPTS": "-p no:hypothesispytest",
                    "SECRET_TOKEN": "s3cret-value",
                },
                preexec_fn=heed_interrupts,  # noqa: PLW1509
            )
        self._started.append(process)
        return process

    def close(self) -> None:
        """Kill what still runs, so that its jobs hold no node; they end with their session."""
        for process in self._started:
            if process.poll() is None:
                send(process, signal.SIGKILL)
                process.wait(timeout=30)

    def run(self, *arguments: str, before: tuple[str, ...] = ()) -> int:
        with self.start(*arguments, before=before) as process:
            try:
                return process.wait(timeout=600)
            finally:
                process.kill()

    def text(self) -> str:
        return (self.folder / "pytest.log").read_text()

    def outcomes(self) -> dict[str, Any]:
        values = json.loads((self.folder / "r.json").read_text())
        return {o["case"]["suite"] + o["case"]["layout"]: o for o in values["outcomes"]}

    def files(self, name: str) -> list[Path]:
        return sorted(self.folder.glob(f".dlperf/*/*/{name}"))

    def states(self) -> dict[str, str]:
        """Return the state of each job of this session, whatever it is, by its name."""
        numbers = {p.parent.name for p in self.files("job.sh")}
        listed = self.slurm.run(
            "squeue", "--noheader", "--states=all", "--format=%j|%T|%Z"
        ).splitlines()
        found = [line.strip().split("|") for line in listed]
        return {
            name.removeprefix("dlperf-"): state
            for name, state, where in found
            if where == str(self.folder) and name.removeprefix("dlperf-") in numbers
        }

    def living(self) -> list[str]:
        return [name for name, state in self.states().items() if state in {
            "PENDING", "RUNNING", "COMPLETING", "CONFIGURING",
        }]  # fmt: skip

    def await_asleep(self, count: int = 1) -> None:
        """Wait until so many jobs' commands sleep."""
        self.until(lambda: len(self._asleep()) >= count)

    def _asleep(self) -> list[Path]:
        logs = self.folder.glob(".dlperf/*/*/work/*/*/run1/output.log")
        return [log for log in logs if "asleep" in log.read_text()]

    def until(self, condition: Any, within_s: float = 90) -> None:
        end_s = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < end_s, f"{self.states()}\n{self.text()}"
            time.sleep(0.3)


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    lab = Lab(2)
    try:
        made = Slurm(lab)
        yield made
        made.close()
    finally:
        lab.close()


@pytest.fixture
def session(slurm: Slurm, tmp_path: Path) -> Iterator[Session]:
    made = Session(slurm, tmp_path / "suite")
    yield made
    made.close()


@pytest.fixture(scope="module")
def aside(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Start what takes a minute of waiting: it goes on while the other tests run."""
    killed = Session(slurm, tmp_path_factory.mktemp("aside") / "killed")
    killed.does(orphan=SLEEPS)
    pytest_of_killed = killed.start(*ASIDE)
    limited = Session(slurm, tmp_path_factory.mktemp("aside") / "limited")
    limited.does(limited=SLEEPS)
    words = "--dlperf-slurm=--partition=short --time=1"
    pytest_of_limited = limited.start("--dlperf-share-host", words)
    killed.await_asleep()
    secret = slurm.lab.processes(2, "s3cret-value")
    child = Path(f"/proc/{pytest_of_killed.pid}/task/{pytest_of_killed.pid}/children")
    os.kill(int(child.read_text().split()[0]), signal.SIGKILL)
    pytest_of_killed.wait(timeout=20)
    yield {
        "killed": killed, "secret": secret, "limited": limited, "process": pytest_of_limited,
    }  # fmt: skip
    pytest_of_limited.kill()


def test_two_nodes_train_one_case_in_a_job(session: Session):
    session.write(ON_TWO_NODES)
    code = session.run("--dlperf-max-runs=1")
    outcome = session.outcomes()["net2n1c"]
    check_trained(outcome)
    assert code == 0, session.text()
    assert session.slurm.lab.processes(2, str(session.folder)) == []


@pytest.mark.nightly  # the gate has turns of nodes in test_turns.py
def test_a_pair_takes_turns_in_a_job(session: Session):
    session.write(ON_TWO_NODES)
    session.run("--dlperf-max-runs=1", *PAIR)
    outcomes = session.outcomes()
    assert outcomes, session.text()
    check_turns(session.folder, outcomes["net2n1c"])
    session.until(lambda: list(processes(session.folder)) == [])


# The gate has the same on two nodes.
@pytest.mark.nightly
def test_ranks_below_slurms_daemon_stand_still(session: Session):
    session.write(ON_TWO_NODES.replace('"2n1c"', '"1n1c"').replace(
        "speedup=None", 'launcher="srun", options={"pace_s": 0.2}'
    ))  # fmt: skip
    process = session.start("--dlperf-max-runs=1", *PAIR)
    # The launcher stands still as well, and has a number of its own in the job
    session.until(
        lambda: any(_is_below_slurm(p.pid) for p in processes(session.folder) if p.stands)
    )
    assert process.wait(timeout=200) in {0, 1}, session.text()
    [outcome] = session.outcomes().values()
    assert outcome["against"]["order"] == ["both"], session.text()
    session.until(lambda: list(processes(session.folder)) == [])


def _is_below_slurm(pid: int) -> bool:
    return b"slurmstepd" in Path(f"/proc/{parent_of(pid)}/cmdline").read_bytes()


# Jobs that sleep are cancelled after a wait, which takes minutes: nightly.
@pytest.mark.nightly
@pytest.mark.usefixtures("aside")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_cancels_what_waits_and_what_runs(session: Session, number: int):
    session.does(first=SLEEPS, second=SLEEPS, third=SLEEPS)
    process = session.start("--dlperf-jobs=2", "--dlperf-slurm=--nodelist=node1")
    session.await_asleep()
    submitted = ["first.tiny-torch-fp32-bs1-1n1c", "probe", "second.tiny-torch-fp32-bs1-1n1c"]
    session.until(lambda: sorted(session.states()) == submitted)
    send(process, number)
    assert process.wait(timeout=30) in {2, 143}
    session.until(lambda: not session.living())
    assert session.slurm.lab.processes(1, str(session.folder)) == []


# It waits for jobs one after the other.
@pytest.mark.nightly
def test_jobs_beyond_the_number_wait_here_and_an_end_at_the_first_failure_cancels_them(
    session: Session,
):
    session.does(first="sleep 1; exit 3", second="sleep 1; exit 3", third=SLEEPS)
    process = session.start(
        "-x", "--maxfail=2", "--dlperf-jobs=1", "--dlperf-slurm=--nodelist=node1"
    )
    most = 0
    while process.poll() is None:
        most = max(most, len(session.living()))
        time.sleep(0.3)
    assert process.returncode == 1
    assert most == 1
    outcomes = session.outcomes()
    assert outcomes.pop("third1n1c")["judgement"]["verdict"] == "not-run"
    assert sorted(outcomes) == ["first1n1c", "second1n1c"]
    for outcome in outcomes.values():
        assert outcome["judgement"]["verdict"] == "error"
        assert "exit code 3" in outcome["judgement"]["reason"]
    session.until(lambda: not session.living())


def test_a_partition_that_does_not_exist_is_an_error_in_sbatchs_own_words(session: Session):
    session.does(first=SLEEPS)
    assert session.run("--dlperf-slurm=--partition=nowhere") == 1
    [outcome] = session.outcomes().values()
    assert outcome["judgement"]["verdict"] == "error"
    assert "invalid partition specified: nowhere" in outcome["judgement"]["reason"]


# It waits until Slurm has given its reason.
@pytest.mark.nightly
def test_a_job_that_can_never_start_is_an_error_that_says_why(session: Session):
    session.does(first=SLEEPS)
    assert session.run("--dlperf-slurm=--partition=short") == 1
    [outcome] = session.outcomes().values()
    assert outcome["judgement"]["verdict"] == "error"
    assert "PartitionTimeLimit" in outcome["judgement"]["reason"]
    session.until(lambda: not session.living())


# Four trainings in jobs; CI has one, on two nodes.
@pytest.mark.nightly
def test_the_target_decides_what_fits_and_the_session_stores_what_jobs_measured(
    session: Session,
):
    with pytest.raises(RuntimeError, match="sacct"):
        session.slurm.run("sacct")
    session.write(TRAINS)
    one_core = ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))))
    code = session.run(
        "--update-baselines", "--dlperf-reason=first", "--dlperf-slurm=--nodelist=node1",
        before=one_core,
    )  # fmt: skip
    outcomes = session.outcomes()
    assert code == 0, session.text()
    assert sorted(outcomes) == ["net1n1c", "net1n2c"]
    assert f"{len(os.sched_getaffinity(0))} cores" in session.text()
    for outcome in outcomes.values():
        assert outcome["update"] == "created"
        assert outcome["environment"]["node"] == "node1"
        assert outcome["measurement"]["runs"]
    assert outcomes["net1n2c"]["measurement"]["speedup"] > 0
    stored = list(session.folder.glob("baselines/*/net/*.json"))
    assert len(stored) == 2
    assert session.folder.joinpath("r.json").exists()
    assert set(session.states().values()) == {"COMPLETED"}
    for path in (*session.files("job.log"), *session.files("job.sh")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


# Its fixture waits a minute for Slurm's limit of time.
@pytest.mark.nightly
def test_secrets_of_the_environment_do_not_travel(aside: dict[str, Any]):
    assert aside["secret"] == []


# It waits a minute for Slurm's limit of time.
@pytest.mark.nightly
def test_a_job_beyond_its_limit_is_an_error_with_its_log(aside: dict[str, Any]):
    limited: Session = aside["limited"]
    assert aside["process"].wait(timeout=150) == 1, limited.text()
    [outcome] = limited.outcomes().values()
    assert outcome["judgement"]["verdict"] == "error"
    reason = outcome["judgement"]["reason"]
    assert "time limit" in reason
    assert "job.log, its last lines:" in reason
    assert not limited.living()


# It waits until jobs miss their session.
@pytest.mark.nightly
def test_the_jobs_of_a_killed_session_end_by_themselves(aside: dict[str, Any], slurm: Slurm):
    killed: Session = aside["killed"]
    killed.until(lambda: not killed.living(), within_s=120)
    [log] = [path for path in killed.files("job.log") if "orphan" in str(path)]
    assert "the session is gone" in log.read_text()
    killed.until(lambda: slurm.lab.processes(2, str(killed.folder)) == [], within_s=20)
