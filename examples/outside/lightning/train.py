from lightning.pytorch import Trainer
from lightning.pytorch.demos import LightningTransformer

from pytest_dlperf.mark.lightning import StepCallback

model = LightningTransformer(vocab_size=1000)
Trainer(max_steps=150, callbacks=[StepCallback(work=35)]).fit(model)
