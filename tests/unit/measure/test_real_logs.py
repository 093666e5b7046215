from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.measure.logs.extract import extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.unit.measure.test_log_columns import assert_same, both_ways

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[3]
LOGS = Path(os.environ.get("DLPERF_SHARED", ROOT.parent / "shared")) / "logs"
INDEX = LOGS / "INDEX.json"
if not INDEX.is_file():
    pytest.skip(f"no real logs at {LOGS}", allow_module_level=True)

ENTRIES: list[dict[str, Any]] = json.loads(INDEX.read_text(encoding="utf-8"))
FORMATS = {
    "ppcls_txt": "paddleclas",
    "dll_pt_rn50": "ngc-pytorch",
    "dll_tf_rn50": "ngc-tensorflow",
    "dll_mx_rn50": "ngc-mxnet",
    "paddleseg": "paddleseg",
    "mmseg": "mmseg",
    "paddlenlp_bert": "paddlenlp-bert",
    "dll_tf_bert": "ngc-tensorflow-bert",
    "bert_pyt_summary": "ngc-pytorch-bert",
    "paddlenlp_trans": "paddlenlp-transformer",
    "fairseq_ngc": "ngc-transformer",
    "tf_timehistory": "tf2-timehistory",
}
#: Where our time-weighted rate is another, and why it is right.
OURS = {
    # The index averages running means; undone, reader stalls of the last 250 steps show.
    "master/ResNet50V1.5/logs/V100-LOG/PaddleClas_ResNet50_bs256_fp32_DP_N1C8_log": 2948.655,
    # The index weighs windows alike; tokens vary, and 9042.42 is tokens over the log's walltime.
    "master/Transformer/OtherReports/PyTorch/logs/V100_LOG/transformer_pytorch_bs5120_fp32_gpu1": (
        9042.423
    ),
    "master/Transformer/logs/V100_LOG/PaddleNLP_transformer_big_bs5120_fp32_DP_N1C1_log": 8760.578,
    "v2.4/Transformer/logs/V100_LOG/PaddleNLP_transformer_big_bs5120_fp32_DP_N1C1_log": 8771.153,
}


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["path"] for entry in ENTRIES])
def test_a_real_log_agrees_with_its_index(entry: dict[str, Any]) -> None:
    result = extract(LOGS / entry["path"], ParseOptions())

    assert result.format == FORMATS[entry["format"]]
    assert result.world_size == entry["world_size"]
    assert result.precision == entry["precision"]
    short = any("<=50 iterations" in quirk for quirk in entry["quirks"])
    if short or entry["skip50"]["time_weighted"] is None:
        assert result.throughput is None
        assert "insufficient-data" in {problem.code for problem in result.problems}
        return
    assert result.estimates is not None
    expected = entry["skip50"]
    weighted = OURS.get(entry["path"].removeprefix("paddle-perf/"), expected["time_weighted"])
    assert result.estimates.mean_of_rates == pytest.approx(expected["mean_of_rates"], rel=1e-3)
    assert result.estimates.median_of_rates == pytest.approx(expected["median_of_rates"], rel=1e-3)
    assert result.throughput == pytest.approx(weighted, rel=1e-3)


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["path"] for entry in ENTRIES])
def test_a_real_log_is_read_the_same_by_columns_and_line_by_line(entry: dict[str, Any]) -> None:
    by_columns, by_line = both_ways(LOGS / entry["path"], FORMATS[entry["format"]])
    assert_same(asdict(by_columns), asdict(by_line))
