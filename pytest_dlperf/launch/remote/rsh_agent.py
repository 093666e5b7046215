"""Remote shell for launchers that start ranks on other hosts themselves: mpirun, horovodrun.

They call it as they call ssh, with options, a host and a command. It runs the command over a
channel, so that it ends with this process. ``rsh.json`` in the run's folder says how hosts are
reached. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

if __name__ == "__main__":  # run by its path, in isolated mode
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from pytest_dlperf.launch.remote.channel import Channel, as_exit_code, pump, reach_from_json
from pytest_dlperf.launch.remote.messages import ShellSettings
from pytest_dlperf.launch.turns.cgroup import leave
from pytest_dlperf.launch.turns.freezer import CHANNEL_NAME, set_name

#: Options of ssh that take a value.
_WITH_VALUE: Final = frozenset("BbcDEeFIiJLlmOopQRSWw")
#: Name in the run's folder under which launchers call this program.
SHELL: Final = "rsh/ssh"
_POLL_S: Final = 0.2
_ENDING_S: Final = 12.0


def _print_error(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def parse(words: list[str]) -> tuple[str, str]:
    """Return host and command of a call of ssh; its options are ignored."""
    host = ""
    rest = list(words)
    while rest and (not host or rest[0].startswith("-")):
        word = rest.pop(0)
        if word.startswith("-"):
            if len(word) == 2 and word[1] in _WITH_VALUE and rest:
                rest.pop(0)
        else:
            host = word.rpartition("@")[2]
    return host, " ".join(rest)


def main(argv: list[str]) -> int:
    """Run ``argv[1:]``, a call of ssh, with the settings in ``argv[0]``; return its exit code."""
    settings_file = Path(argv[0])
    settings: ShellSettings = json.loads(settings_file.read_text(encoding="utf-8"))
    workdir = settings_file.parent
    set_name(CHANNEL_NAME)
    leave()
    host, command = parse(argv[1:])
    # This process must call the real ssh, which is hidden from the launcher.
    hidden = str(workdir / Path(SHELL).parent)
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(folder for folder in path if folder != hidden)
    if host not in settings["reaches"]:
        _print_error(f"{host} is not a host of this launch")
        return 255
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda received, _frame: asked.append(received))
    channel = Channel(reach_from_json(settings["reaches"][host]))
    channel.begin(settings["nonce"], settings["run"]["meet_at"])
    deadline_s = time.monotonic() + settings["connect_timeout_s"]
    while channel.hello is None:
        pump([channel], _POLL_S)
        if channel.is_over or asked or time.monotonic() > deadline_s:
            channel.kill()
            _print_error(f"{host} cannot be reached: {channel.last_output}")
            return 255
    channel.send(
        {
            **settings["run"],
            "kind": "run",
            # A shell, as ssh starts one: launchers write their commands for it.
            "argv": ["/bin/sh", "-c", command],
            "workdir": str(workdir),
            # Daemons of the launcher look for the remote shell, although they never call it.
            "files": {
                **settings["run"]["files"],
                SHELL: (workdir / SHELL).read_text(encoding="utf-8"),
            },
            "timeout_s": settings["timeout_s"],
            # The conductor fetches the records: this process ends with its launcher.
            "send_back": False,
            # The conductor's own channel to the host gives them.
            "turns": None,
        }
    )
    return _until_it_ends(channel, asked)


def _until_it_ends(channel: Channel, asked: list[int]) -> int:
    ending_s = 0.0
    while not channel.is_over:
        for _, kind, data in pump([channel], _POLL_S):
            if kind == "O":
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
        if channel.end is not None or asked:
            channel.close()
            ending_s = ending_s or time.monotonic() + _ENDING_S
        if ending_s and time.monotonic() > ending_s:
            break
    channel.kill()
    if channel.end is None:
        _print_error(f"{channel.name} was lost: {channel.last_output}")
        return 255
    code = channel.end["exit_code"]
    if code is None:
        _print_error(f"{channel.name}: {channel.end.get('message', '')}")
        return 255
    return as_exit_code(int(code))


if __name__ == "__main__":
    ended_with = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(ended_with)
