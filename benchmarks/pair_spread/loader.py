"""A program whose two loader processes make its data: it waits for them."""

import sys

import torch
from amount import DATA

from pytest_dlperf.mark import step


class Made(torch.utils.data.Dataset):
    def __len__(self):
        return 64 * int(sys.argv[1])

    def __getitem__(self, index):
        sample = torch.full((256,), 0.1)
        for _ in range(DATA):
            sample = sample.sin()
        return sample


if __name__ == "__main__":
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(2)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for batch in torch.utils.data.DataLoader(Made(), batch_size=64, num_workers=2):
        with step() as marked:
            loss = model(batch).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            marked.loss(loss)
