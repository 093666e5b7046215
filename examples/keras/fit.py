"""A program of Keras 3 whose ``fit`` owns the loop: a callback marks its steps."""

from __future__ import annotations

import os
import sys

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
from net import make_loss, make_model

from pytest_dlperf import mark

BATCH = 8


class Steps(keras.callbacks.Callback):
    """Marks each batch of ``fit``."""

    def on_train_batch_begin(self, batch, logs=None):
        """Begin a step."""
        self.step = mark.step(work=BATCH)
        self.step.__enter__()

    def on_train_batch_end(self, batch, logs=None):
        """End it, and report the mean loss of the epoch so far, which is what Keras knows."""
        self.step.loss(logs["loss"])
        self.step.__exit__(None, None, None)


iterations = int(sys.argv[1])
model = make_model(keras, 0)
model.compile(optimizer=keras.optimizers.SGD(0.1), loss=make_loss(keras))
x = np.random.default_rng(0).standard_normal((BATCH * iterations, 32), np.float32)
model.fit(x, np.arange(len(x)) % 4, batch_size=BATCH, verbose=0, callbacks=[Steps()])
