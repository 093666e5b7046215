"""Computes for so many seconds, on the GPU if there is one: ``python occupy.py 60``."""

from __future__ import annotations

import sys
import time

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
square = torch.randn(4096 if device == "cuda" else 256, device=device).expand(256, -1).clone()
end_s = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end_s:
    product = square @ square.T
    if device == "cuda":
        torch.cuda.synchronize()
