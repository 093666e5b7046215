"""A program with marks that asks for the canary of its GPU."""

from __future__ import annotations

import torch

from pytest_dlperf.mark import canary, step

device = "cuda" if torch.cuda.is_available() else "cpu"
left = torch.randn(512, 512, device=device, requires_grad=True)
right = torch.randn(512, 512, device=device)
canary()
for _ in range(150):
    with step() as marked:
        loss = (left @ right).square().mean()
        loss.backward()
        left.grad = None
        marked.loss(loss)
