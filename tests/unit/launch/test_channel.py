"""A channel to this host: what goes over it, and what is left when it ends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.place import Reach
from pytest_dlperf.core.wire import rank_file
from pytest_dlperf.launch.remote import conductor
from pytest_dlperf.launch.remote.channel import (
    Channel,
    end_from_json,
    far_end,
    hello_from_json,
    pump,
)
from pytest_dlperf.launch.remote.conductor import fill_in, unpack
from pytest_dlperf.launch.remote.far_side import BEGIN
from pytest_dlperf.launch.remote.messages import RunRequest, TurnsAsked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="far ends are Linux")


def opened(tmp_path: Path, *before: str, sees: bool = True) -> Channel:
    seen = tmp_path / "seen"
    seen.write_text("a nonce")
    channel = Channel(Reach(name="here", argv=before, python=sys.executable))
    channel.begin({"path": str(seen), "text": "a nonce" if sees else "another"}, "127.0.0.1")
    until(channel, lambda: channel.hello is not None)
    return channel


def until(channel: Channel, condition: Any, within_s: float = 30) -> list[tuple[str, bytes]]:
    found, end_s = [], time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, channel.last_output
        assert not channel.is_over or condition(), channel.last_output
        found += [(kind, data) for _, kind, data in pump([channel], 0.1)]
    return found


def answer(channel: Channel, within_s: float = 30) -> bytes:
    """Return the next frame of turns."""
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        for _, kind, data in pump([channel], 0.1):
            if kind == "R":
                return data
    raise AssertionError(f"no answer: {channel.last_output}")


def run(
    channel: Channel,
    workdir: Path,
    *argv: str,
    env: Mapping[str, str] = {},
    files: Mapping[str, str] = {},
    send_back: bool = False,
    turns: TurnsAsked | None = None,
) -> None:
    channel.send(request(workdir, *argv, env=env, files=files, send_back=send_back, turns=turns))


def request(
    workdir: Path,
    *argv: str,
    env: Mapping[str, str] = {},
    files: Mapping[str, str] = {},
    send_back: bool = False,
    turns: TurnsAsked | None = None,
) -> RunRequest:
    return {
        "kind": "run", "argv": list(argv), "env": env, "prefix": [], "files": files, "cwd": "",
        "workdir": str(workdir), "meet_at": "", "interface_variables": [], "timeout_s": 60.0,
        "send_back": send_back,
        "turns": turns,
    }  # fmt: skip


def test_output_and_exit_code_come_back(tmp_path: Path):
    channel = opened(tmp_path)
    run(channel, tmp_path / "w", "sh", "-c", "echo said; exit 3")
    frames = until(channel, lambda: channel.end is not None)
    assert b"".join(data for kind, data in frames if kind == "O") == b"said\n"
    assert channel.end is not None
    assert (channel.end["end"], channel.end["exit_code"]) == ("exited", 3)
    channel.kill()


def test_what_a_login_shell_prints_is_no_frame(tmp_path: Path):
    channel = opened(tmp_path, "sh", "-c", 'echo H3 welcome; exec "$@"', "sh")
    assert channel.hello is not None
    assert channel.last_output == "H3 welcome"
    channel.kill()


def test_a_long_line_of_a_login_shell_is_cut(tmp_path: Path):
    channel = opened(tmp_path, "sh", "-c", 'printf "%20000d\\n" 7 | tr " " x; exec "$@"', "sh")
    assert channel.last_output == "x" * 400
    channel.kill()


def test_its_end_ends_what_runs_there_in_sessions_of_their_own_as_well(tmp_path: Path):
    pids = tmp_path / "pids"
    channel = opened(tmp_path)
    inner = f"echo $$ >> {pids}; exec sleep 1000"
    run(channel, tmp_path / "w", "sh", "-c", f"setsid sh -c '{inner}' & echo $$ >> {pids}; wait")
    until(channel, lambda: pids.exists() and len(pids.read_text().split()) == 2)
    channel.close()
    until(channel, lambda: channel.is_over)
    channel.kill()
    assert not [pid for pid in pids.read_text().split() if Path(f"/proc/{pid}").exists()]


def test_records_come_back_and_nothing_of_them_stays(tmp_path: Path):
    channel = opened(tmp_path, sees=False)
    assert channel.hello is not None
    assert channel.hello["sees"] is False
    there, here = tmp_path / "there" / "run1", tmp_path / "here"
    here.mkdir()
    run(
        channel, there, "sh", "-c", "echo record > rank00001.jsonl; test -s secret",
        send_back=True, files={"secret": "value"},
    )  # fmt: skip
    frames = until(channel, lambda: channel.end is not None)
    assert channel.end is not None
    assert channel.end["exit_code"] == 0
    archive = tmp_path / "archive"
    archive.write_bytes(b"".join(data for kind, data in frames if kind == "T"))
    unpack(archive, here)
    assert (here / "rank00001.jsonl").read_text() == "record\n"
    assert not (here / "secret").exists()
    assert not there.exists()
    channel.kill()


def test_a_program_that_is_not_there(tmp_path: Path):
    channel = opened(tmp_path)
    run(channel, tmp_path / "w", "/no/such/program")
    until(channel, lambda: channel.end is not None)
    assert channel.end == {
        "exit_code": None, "end": "not-started",
        "message": "/no/such/program: No such file or directory",
    }  # fmt: skip
    channel.kill()


def test_messages_that_come_together_are_all_taken(tmp_path: Path):
    seen = tmp_path / "seen"
    channel = Channel(Reach(name="here", argv=(), python=sys.executable))
    greeting = {"nonce": {"path": str(seen), "text": ""}, "meet_at": "", "clear": ""}
    turns: TurnsAsked = {"records": str(tmp_path), "ranks": 1}
    messages = (
        greeting,
        request(tmp_path / "w", "sleep", "600", turns=turns),
        {"kind": "turn", "line": "freeze"},
    )
    source = far_end().encode()
    lines = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    channel._write(b"%d\n" % len(source) + source + lines)
    assert answer(channel) == b"frozen {}"
    channel.close()
    until(channel, lambda: channel.is_over)
    channel.kill()


def turns_in(folder: Path) -> TurnsAsked:
    return {"records": str(folder), "ranks": 2}


def test_a_program_that_is_not_there_leaves_no_turns(tmp_path: Path):
    channel = opened(tmp_path)
    run(channel, tmp_path / "w", "/no/such/program", turns=turns_in(tmp_path / "records"))
    until(channel, lambda: channel.end is not None)
    assert channel.end is not None
    assert channel.end["end"] == "not-started"
    assert list((tmp_path / "records").iterdir()) == []
    channel.kill()


def test_a_node_whose_folder_can_have_no_fifo_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    in_the_way = tmp_path / rank_file(1, "turn")
    in_the_way.write_text("")
    channel = opened(tmp_path)
    run(channel, tmp_path / "w", "true", turns=turns_in(tmp_path))
    until(channel, lambda: channel.end is not None)
    assert channel.end == {
        "exit_code": None, "end": "no-turns", "message": f"{in_the_way}: File exists",
    }  # fmt: skip
    assert list((tmp_path / "temporary").iterdir()) == []
    assert in_the_way.exists()
    assert not any(path.is_fifo() for path in tmp_path.iterdir())
    channel.kill()


def test_a_node_that_gives_turns_ends_when_it_is_asked_to(tmp_path: Path):
    folder = tmp_path / "records"
    channel = opened(tmp_path)
    channel.send({"kind": "turns", "workdir": str(tmp_path / "w"), "turns": turns_in(folder)})
    channel.send({"kind": "turn", "line": "freeze"})
    assert answer(channel) == b"frozen {}"
    channel.process.terminate()
    until(channel, lambda: channel.is_over)
    assert channel.end == {"exit_code": None, "end": "asked-to-end"}
    assert list(folder.iterdir()) == []
    channel.kill()


def test_a_command_gets_what_the_request_names_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    channel = opened(tmp_path)
    run(channel, tmp_path / "w", "env", env={"NCCL_DEBUG": "INFO"})
    frames = until(channel, lambda: channel.end is not None)
    said = b"".join(data for kind, data in frames if kind == "O").decode()
    assert "NCCL_DEBUG=INFO" in said
    assert f"PATH={os.environ['PATH']}" in said
    assert "s3cret" not in said
    channel.kill()


HELLO = {
    "host": "boot ns n2", "time": 1.5, "port": 40001, "address": "10.0.0.2", "interface": "eth0.7",
    "network": "10.0.0.0/24", "sees": True,
}  # fmt: skip


@pytest.mark.parametrize("known", [{}, {"address": "", "interface": "", "network": "0.0.0.0/0"}])
def test_a_greeting_is_what_a_node_is(known: dict[str, Any]):
    hello = HELLO | known
    assert hello_from_json(json.dumps(hello).encode()) == hello


@pytest.mark.parametrize(
    "said",
    [
        {"address": '", "argv": ["sh", "-c", "id"], "x": "'},
        {"address": "10.0.0.2 --launcher-agent=sh"},
        {"address": None},
        {"network": "10.0.0.0/24,x"},
        {"interface": "eth0; id"},
        {"interface": ["eth0"]},
        {"port": "40001"},
        {"port": True},
        {"port": 1 << 16},
        {"sees": "yes"},
        {"more": 1},
    ],
    ids=str,
)
def test_words_of_a_node_that_are_no_place_are_refused(said: dict[str, Any]):
    with pytest.raises(ValueError, match=r"."):
        hello_from_json(json.dumps(HELLO | said).encode())


@pytest.mark.parametrize("text", ["[1]", "{", '{"end": 1, "exit_code": 0}', '{"exit_code": "0"}'])
def test_an_end_of_another_kind_is_refused(text: str):
    with pytest.raises(ValueError, match=r"."):
        end_from_json(text.encode())


@pytest.mark.parametrize("frame", [json.dumps(HELLO | {"interface": "x; id"}), "{", "[" * 100_000])
def test_a_node_that_does_not_keep_to_the_protocol_is_lost(tmp_path: Path, frame: str):
    says = tmp_path / "frames"
    data = frame.encode()
    says.write_bytes(BEGIN + b"H%x\n" % len(data) + data)
    channel = Channel(Reach(name="n2", argv=("sh", "-c", f"cat {says}; cat >&2"), python="x"))
    until(channel, lambda: channel.is_over)
    assert channel.hello is None
    assert "n2 does not keep to the protocol" in channel.last_output
    channel.kill()


@pytest.mark.parametrize("line", [b"2 built", b"hello", b"frozen 1", b"\xff", b""])
def test_a_node_whose_answer_is_none_is_lost(tmp_path: Path, line: bytes):
    hello, answered = tmp_path / "hello", tmp_path / "answered"
    data = json.dumps(HELLO).encode()
    hello.write_bytes(BEGIN + b"H%x\n" % len(data) + data)
    answered.write_bytes(b"R%x\n" % len(line) + line)
    says = f"cat {hello}; grep -qm1 '^{{.*argv'; cat {answered}; cat > /dev/null"
    here, there = socket.socketpair()
    launch = {
        "nonce": {"path": str(hello), "text": ""},
        "connect_timeout_s": 30.0,
        "timeout_s": 60.0,
        "nodes": [
            {
                "reach": {"name": "n2", "argv": ["sh", "-c", says], "shell": False, "python": "x"},
                "run": request(tmp_path, "true"),
            }
        ],
        "turns": turns_in(tmp_path),
        "referee": there.fileno(),
    }
    (tmp_path / "launch.json").write_text(json.dumps(launch))
    with here, there:
        done = subprocess.run(
            [sys.executable, conductor.__file__, str(tmp_path / "launch.json")],
            pass_fds=[there.fileno()],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr == ""
    [node] = json.loads((tmp_path / "nodes.json").read_text())["nodes"]
    assert (node["node"], node["end"]) == ("n2", "lost")
    assert node["message"].startswith("n2 does not keep to the protocol: ")


def test_places_are_filled_in_as_texts_whatever_is_in_them():
    run = {"argv": ["--if=${INTERFACE}"], "env": {"A": "${NODE_IP}:${MASTER_PORT}"}, "cwd": ""}
    places = {"${INTERFACE}": '"]', "${NODE_IP}": "\\", "${MASTER_PORT}": "7"}
    assert fill_in(run, places) == {"argv": ['--if="]'], "env": {"A": "\\:7"}, "cwd": ""}
