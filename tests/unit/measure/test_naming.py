"""What training a log is of, by its name."""

from __future__ import annotations

import pytest

from pytest_dlperf.core.quantity import same_precision, same_unit
from pytest_dlperf.measure.logs.path_words import name_of


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("resnet50_gpu8_bs256_fp32_1.log", "resnet50"),
        ("resnet50_gpu8_bs256_pure_fp16_2.log", "resnet50"),
        ("run0base_gpu8_bs16_fp32.log", "base"),
        ("PaddleSeg_fcn_hrnetw18_bs8_fp32_DP_N1C8_log", "paddleseg-fcn-hrnetw18"),
        ("vgg16.log", "vgg16"),
        ("efficientnet_b4_3.log", "efficientnet-b4"),
        ("train.log.3", ""),
        ("workerlog.0", ""),
        ("run1/train.log", ""),
        ("resnet_20220205_043342.log", "resnet"),
        ("resnet/run3/2022-02-05-04-33-42.log", "resnet"),
    ],
)
def test_what_is_left_of_a_name(path: str, name: str):
    assert name_of(f"logs/{path}", "logs") == name


def test_words_of_units_and_precisions():
    assert same_unit("samples", "clips")
    assert same_unit("images", "samples")
    assert not same_unit("samples", "tokens")
    assert not same_unit("images", "clips")
    assert same_precision("fp16", "amp")
    assert same_precision("fp16", "pure_fp16")
    assert not same_precision("amp", "pure_fp16")
    assert not same_precision("tf32", "fp32")
