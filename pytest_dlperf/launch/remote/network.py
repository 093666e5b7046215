"""The address, interface and network by which this node reaches others (Linux, stdlib only)."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
from typing import Final

_IFADDR: Final = 0x8915  # ioctl(2): SIOCGIFADDR, and for its netmask SIOCGIFNETMASK
_IFNETMASK: Final = 0x891B
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def identity() -> str:
    """Return an identity of this node that does not depend on the name it is reached by."""
    found = []
    for path, read in ((_BOOT_ID, _text_of), ("/proc/self/ns/net", os.readlink)):
        try:
            found.append(read(path))
        except OSError:
            found.append("")  # not Linux
    return " ".join([*found, socket.gethostname()])


def _text_of(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def network_to(host: str) -> str:
    """Return the network, as ``10.0.0.0/24``, by which this node reaches ``host``; or all."""
    own = own_address(host)
    for address, netmask in interfaces().values():
        if address == own:
            network = ipaddress.ip_network(f"{address}/{netmask}", strict=False)
            return str(network)
    return "0.0.0.0/0"


def interface_to(host: str) -> str:
    """Return the network interface by which this node reaches ``host``; empty if unknown."""
    own = own_address(host)
    return next((name for name, (address, _) in interfaces().items() if address == own), "")


def own_address(host: str) -> str:
    """Return the address that this node has in the network of ``host``; empty if unknown.

    On the first node itself, whose name may resolve to the loopback address, this is the address
    of an interface that other nodes can reach.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # sends nothing
            found = str(probe.getsockname()[0])
    except OSError:
        return ""
    if not found.startswith("127."):
        return found
    return next((a for a, _ in interfaces().values() if not a.startswith("127.")), "")


def interfaces() -> dict[str, tuple[str, str]]:
    """Return IPv4 address and netmask of every network interface (Linux)."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            question = struct.pack("256s", name.encode()[:15])
            try:
                answers = [
                    socket.inet_ntoa(fcntl.ioctl(any_socket, code, question)[20:24])
                    for code in (_IFADDR, _IFNETMASK)
                ]
            except OSError:
                continue  # it has no address
            found[name] = (answers[0], answers[1])
    return found
