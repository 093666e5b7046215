"""A program whose log alone is read."""

import sys
import time

import torch
from amount import STEP

torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(64, 256)
for index in range(int(sys.argv[1])):
    begin_s = time.perf_counter()
    for _ in range(STEP):
        x @ x.T
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    rate = 64 / (time.perf_counter() - begin_s)
    print(f"step {index} loss {float(loss.detach()):.4f} {rate:.1f} samples/s", flush=True)
