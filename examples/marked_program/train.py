"""A training program with three lines of pytest-dlperf in it: see the word ``mark``."""

from __future__ import annotations

import argparse
import gc
import os

import torch
import torch.distributed as dist
from torch import nn

from pytest_dlperf import mark


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=1000)
    args = parser.parse_args()

    distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if distributed:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = nn.LSTM(32, 64, batch_first=True)
    if distributed:
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(net.parameters())

    for step in range(args.iterations):
        length = 16 + step % 16
        tokens = torch.randn(8, length, 32)
        with mark.step(work=8 * length) as step_mark:  # tokens of this rank in this step
            loss = net(tokens)[0].square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step_mark.loss(loss)
    if distributed:
        # The wrapped model holds the process group; gloo's threads must end before Python does.
        del net, optimizer, loss
        gc.collect()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
