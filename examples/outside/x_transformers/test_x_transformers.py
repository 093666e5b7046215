import pytest


@pytest.mark.dlperf("gpt:build", layout="1n1c", batch_size_per_device=8, unit="tokens", work=512)
def test_x_transformers(dlperf):
    dlperf.run()
