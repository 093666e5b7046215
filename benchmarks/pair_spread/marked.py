"""A program that marks its steps."""

import sys

import torch
from amount import STEP

from pytest_dlperf.mark import step

torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(64, 256)
for _ in range(int(sys.argv[1])):
    with step() as marked:
        for _ in range(STEP):
            x @ x.T
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        marked.loss(loss)
