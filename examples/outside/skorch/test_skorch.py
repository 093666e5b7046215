import pytest

from pytest_dlperf import pattern

EPOCH = pattern(r"^ +(?P<step>\d+) +(?P<loss>\S+) .* (?P<seconds>\d+\.\d+)$", unit="images")
COMMAND = ["python", "train.py", "{iterations}"]


@pytest.mark.dlperf(command=COMMAND, log_format=EPOCH, layout="1n1c", batch_size_per_device=1437)
def test_skorch(dlperf):
    dlperf.run()
