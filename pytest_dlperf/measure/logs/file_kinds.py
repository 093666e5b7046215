"""Files that are not logs: empty, compressed, or binary."""

from __future__ import annotations

from typing import Final

#: First bytes of files, what they are, and what makes a log of them.
_MAGIC: Final = (
    (b"\x1f\x8b", "gzip; decompress it (gzip -d)"),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"\xfd7zXZ\x00", "xz; decompress it (xz -d)"),
    (b"\x28\xb5\x2f\xfd", "zstd; decompress it (zstd -d)"),
    (b"BZh", "bzip2; decompress it (bzip2 -d)"),
)
_TEXT: Final = bytes({*range(32, 127), 9, 10, 13, 27, 0, *range(128, 256)})
#: More bytes than this share that no text has: the file is none.
_NO_TEXT: Final = 0.05


def why_no_text(head: bytes) -> str:
    """Return what a file is by its first bytes, if it is not a text; empty for a text."""
    if not head:
        return "the file is empty"
    for magic, what in _MAGIC:
        if head.startswith(magic):
            return f"the file is {what}"
    if len(head.translate(None, _TEXT)) > _NO_TEXT * len(head):
        return "the file is binary, and not the text of a log"
    return ""
