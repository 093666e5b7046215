import pytest

COMMAND = ["python", "train.py"]


@pytest.mark.dlperf(command=COMMAND, layout="1n1c", batch_size_per_device=1, unit="tokens")
def test_lightning(dlperf):
    dlperf.run()
