"""The project's own program, as it was: a line of its log is an epoch of 1437 images."""

import sys

import torch
from sklearn.datasets import load_digits
from skorch import NeuralNetClassifier

net = NeuralNetClassifier(
    torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)),
    criterion=torch.nn.CrossEntropyLoss,
    max_epochs=int(sys.argv[1]),
)
images, digits = load_digits(return_X_y=True)
net.fit(images.astype("float32"), digits)
