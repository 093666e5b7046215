"""Sinks by other projects' client libraries: the real ones, with storage of this machine."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report import json_
from pytest_dlperf.session.sinks.deliver import deliver
from tests.helpers.http_server import Server, serving
from tests.helpers.report_builders import case, measured, unmeasured

# Packages that no other environment has.
pytestmark = pytest.mark.nightly
SLOWER, RIGHT, BROKEN = (case(layout=f"1n{count}g") for count in (8, 1, 4))
RESULTS = json_.render(
    [
        replace(measured(SLOWER, 90.0, verdict=Verdict.REGRESSED), failed=True),
        measured(RIGHT, 12.5),
        replace(unmeasured(BROKEN, Verdict.ERROR, "it broke"), failed=True),
    ]
)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


def of(name: str) -> None:
    """Skip where the library is not installed."""
    pytest.importorskip(name, reason=f"{name} is not installed (tox env sinks)")


def test_wandb_has_a_run_with_figures_and_verdicts(tmp_path: Path, monkeypatch):
    of("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    [line] = deliver(["wandb"], RESULTS)
    assert line.startswith(f"sink wandb: sent to {tmp_path}/wandb/offline-run-"), line
    [file] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    kept = file.read_bytes()
    assert f"{SLOWER.id}/throughput".encode() in kept
    assert b"90" in kept[kept.index(f"{SLOWER.id}/throughput".encode()) :][:60]
    assert b'"regressed"' in kept[kept.index(f"{SLOWER.id}/verdict".encode()) :][:80]
    assert f"{BROKEN.id}/throughput".encode() not in kept


def test_wandb_that_knows_nobody_is_said(tmp_path: Path, monkeypatch):
    of("wandb")
    for name, value in (("HOME", tmp_path), ("WANDB_DIR", tmp_path), ("NETRC", tmp_path / "no")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    [line] = deliver(["wandb"], RESULTS)
    assert line.startswith("sink wandb NOT sent: "), line
    assert "API key" in line


def test_mlflow_has_a_run_with_metrics_and_tags(tmp_path: Path, monkeypatch):
    of("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/runs")
    # Its file store is in maintenance, and needs no server
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    [line] = deliver(["mlflow"], RESULTS)
    assert line.startswith(f"sink mlflow: sent to file:{tmp_path}/runs, run "), line
    client = importlib.import_module("mlflow").MlflowClient(f"file:{tmp_path}/runs")
    [experiment] = client.search_experiments(filter_string="name = 'pytest-dlperf'")
    [run] = client.search_runs([experiment.experiment_id])
    assert run.info.run_id in line
    assert run.info.status == "FINISHED"
    assert run.data.metrics[f"{SLOWER.id}/throughput"] == 90.0
    assert run.data.metrics[f"{RIGHT.id}/failed"] == 0.0
    assert f"{BROKEN.id}/throughput" not in run.data.metrics
    assert run.data.tags[f"{BROKEN.id}/verdict"] == "error"
    assert run.data.tags["dlperf.cases"] == "3"


def test_mlflow_that_is_down_is_said(monkeypatch):
    of("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    [line] = deliver(["mlflow"], RESULTS)
    assert line.startswith("sink mlflow NOT sent: MlflowException: "), line
    assert "127.0.0.1" in line


def test_a_collector_gets_gauges_by_otlp(server: Server, monkeypatch):
    of("opentelemetry.exporter.otlp.proto.http")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.address)
    assert deliver(["opentelemetry"], RESULTS) == [f"sink opentelemetry: sent to {server.address}"]
    [(method, path, body)] = server.posted
    assert (method, path) == ("POST", "/v1/metrics")
    service = importlib.import_module(
        "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2"
    )
    [resource] = service.ExportMetricsServiceRequest.FromString(body).resource_metrics
    [scope] = resource.scope_metrics
    points = {
        (metric.name, attributes["case"]): (point.as_double, attributes["verdict"])
        for metric in scope.metrics
        for point in metric.gauge.data_points
        if (attributes := {one.key: one.value.string_value for one in point.attributes})
    }
    assert points["dlperf.throughput", SLOWER.id] == (90.0, "regressed")
    assert points["dlperf.failed", BROKEN.id] == (1.0, "error")
    assert ("dlperf.throughput", BROKEN.id) not in points


def test_a_collector_that_refuses_is_said(server: Server, monkeypatch):
    of("opentelemetry.exporter.otlp.proto.http")
    server.status = 400
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.address)
    [line] = deliver(["opentelemetry"], RESULTS)
    assert line == (
        f"sink opentelemetry NOT sent: RuntimeError: the collector at {server.address} did not "
        "take the metrics"
    )


def test_a_library_that_hangs_is_ended(server: Server, monkeypatch):
    """A server that accepts and never answers, for all three at once."""
    for name in ("wandb", "mlflow", "opentelemetry.exporter.otlp.proto.http"):
        of(name)
    server.hangs.clear()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.address)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.address)
    monkeypatch.setenv("WANDB_BASE_URL", server.address)
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    names = ["wandb", "mlflow", "opentelemetry"]
    ended = [f"sink {name} NOT sent: it had not ended in time, and was ended" for name in names]
    assert deliver(names, RESULTS, limit_s=8) == ended
