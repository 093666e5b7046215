"""A training program as it was before it met pytest-dlperf: nothing in it is changed."""

from __future__ import annotations

import argparse
import gc
import os
import time

import torch
import torch.distributed as dist
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--print-freq", type=int, default=10)
    args = parser.parse_args()

    distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if distributed:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(3600, 10))
    if distributed:
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    began = time.perf_counter()
    for step in range(1, args.iterations + 1):
        images = torch.randn(args.batch_size, 3, 32, 32)
        labels = images.mean((1, 2, 3)).mul(100).long().clamp(0, 9)
        loss = nn.functional.cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.print_freq == 0:
            seconds = (time.perf_counter() - began) / args.print_freq
            print(f"step {step}: loss {loss.item():.3f}, {args.batch_size / seconds:.1f} images/s")
            began = time.perf_counter()
    if distributed:
        # The wrapped model holds the process group; gloo's threads must end before Python does.
        del net, optimizer, loss
        gc.collect()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
