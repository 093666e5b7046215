"""Program that joins the networks of some processes by links on which every frame is late.

A kernel without netem has no delay of its own: each network gets a TAP device ``eth0``
(https://docs.kernel.org/networking/tuntap.html), and what one of them sends reaches the others
after the delay. Arguments: seconds, then a process in each network. Prints a line when it begins.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import os
import select
import struct
import sys
import time

_CLONE_NEWNET = 0x40000000  # setns(2)
_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
_FRAME_BYTES = 1 << 16


def tap(pid: int) -> int:
    """Return the descriptor of a new ``eth0`` in the network of a process."""
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None).setns(network, _CLONE_NEWNET):
        raise OSError(f"cannot enter the network of pid {pid}")
    os.close(network)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"eth0", _IFF_TAP | _IFF_NO_PI))
    return device


def main(delay_s: float, taps: list[int]) -> None:
    """Pass frames on, for ever."""
    # When each is due, then its number: frames stay in their order
    late: list[tuple[float, int, int, bytes]] = []
    number = 0
    while True:
        wait_s = max(0.0, late[0][0] - time.monotonic()) if late else None
        for source in select.select(taps, [], [], wait_s)[0]:
            with contextlib.suppress(BlockingIOError):
                while True:
                    frame = os.read(source, _FRAME_BYTES)
                    number += 1
                    heapq.heappush(late, (time.monotonic() + delay_s, number, source, frame))
        while late and late[0][0] <= time.monotonic():
            _, _, source, frame = heapq.heappop(late)
            for target in taps:
                # A full queue loses frames, as a switch does; so does a device that is down
                with contextlib.suppress(OSError):
                    if target != source:
                        os.write(target, frame)


if __name__ == "__main__":
    # Its own delay, whatever else runs here
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    devices = [tap(int(pid)) for pid in sys.argv[2:]]
    sys.stdout.write("begins\n")
    sys.stdout.flush()
    main(float(sys.argv[1]), devices)
