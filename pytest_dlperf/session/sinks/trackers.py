"""Sinks by other projects' own client libraries, which their extras install.

Where each sends is what its library makes of its own variables: ``WANDB_*``, ``MLFLOW_*``,
``OTEL_EXPORTER_OTLP_*``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import islice
from typing import Any, Final

#: The project or experiment where none is named, and the name of the meter.
_OURS: Final = "pytest-dlperf"
#: Each figure of a case, its unit in OpenTelemetry (UCUM), and where an outcome has it.
_FIGURES: Final = (
    ("throughput", "1/s", ("measurement", "throughput")),
    ("speedup", "1", ("measurement", "speedup")),
    ("peak_memory_bytes", "By", ("measurement", "peak_memory_bytes")),
    ("change", "1", ("judgement", "change")),
    ("sees", "1", ("judgement", "sees")),
    ("failed", "1", ("failed",)),
)
#: MLflow's server takes no more in one request: metrics, tags (MLflow's REST API, log-batch).
_METRICS_MAX: Final = 1000
_TAGS_MAX: Final = 100
#: Where a collector is unless its variables say otherwise (OpenTelemetry's specification of OTLP).
_COLLECTOR: Final = "http://localhost:4318"
#: What a key of MLflow may hold.
_NOT_IN_KEYS: Final = re.compile(r"[^\w\-. :/]", re.ASCII)


def wandb(results: Mapping[str, Any]) -> str:
    """Log one run to Weights & Biases: figures and verdict by case; return its address."""
    library = _import("wandb", "wandb")
    outcomes = results["outcomes"]
    run = library.init(
        project=os.environ.get("WANDB_PROJECT") or _OURS,
        config=_session(outcomes),
        settings=library.Settings(console="off"),
    )
    run.log({f"{case}/{name}": value for case, name, value in _figures_by_case(outcomes)})
    for outcome in outcomes:
        run.summary[f"{outcome['case']['id']}/verdict"] = outcome["judgement"]["verdict"]
    run.finish()
    return str(run.url or run.dir)


def mlflow(results: Mapping[str, Any]) -> str:
    """Log one run to MLflow: figures as metrics, verdicts as tags; return where it is."""
    library = _import("mlflow", "mlflow")
    outcomes = results["outcomes"]
    if not os.environ.get("MLFLOW_EXPERIMENT_NAME") and not os.environ.get("MLFLOW_EXPERIMENT_ID"):
        library.set_experiment(_OURS)
    metrics = {_key(f"{case}/{name}"): value for case, name, value in _figures_by_case(outcomes)}
    tags = {_key(f"{o['case']['id']}/verdict"): o["judgement"]["verdict"] for o in outcomes}
    with library.start_run() as run:
        library.set_tags(_session(outcomes))
        for part in _parts(metrics, _METRICS_MAX):
            library.log_metrics(part)
        for part in _parts(tags, _TAGS_MAX):
            library.set_tags(part)
    return f"{library.get_tracking_uri()}, run {run.info.run_id}"


def opentelemetry(results: Mapping[str, Any]) -> str:
    """Export gauges ``dlperf.*`` with the case as attribute by OTLP; return the endpoint.

    Raises ``RuntimeError`` where the collector did not take them.
    """
    sdk = _import("opentelemetry.sdk.metrics", "opentelemetry")
    export = _import("opentelemetry.sdk.metrics.export", "opentelemetry")
    otlp = _import("opentelemetry.exporter.otlp.proto.http.metric_exporter", "opentelemetry")
    reader = export.InMemoryMetricReader()
    provider = sdk.MeterProvider(metric_readers=[reader])
    meter = provider.get_meter(_OURS)
    gauges = {name: meter.create_gauge(f"dlperf.{name}", unit=unit) for name, unit, _ in _FIGURES}
    outcomes = results["outcomes"]
    attributes = {outcome["case"]["id"]: _attributes(outcome) for outcome in outcomes}
    for case, name, value in _figures_by_case(outcomes):
        gauges[name].set(value, attributes[case])
    exporter = otlp.OTLPMetricExporter()
    # Through a reader of its own, an exporter's failure would be a line of a log alone
    done = exporter.export(reader.get_metrics_data())
    provider.shutdown()
    named = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    endpoint = next((os.environ[name] for name in named if os.environ.get(name)), _COLLECTOR)
    if done is not export.MetricExportResult.SUCCESS:
        raise RuntimeError(f"the collector at {endpoint} did not take the metrics")
    return endpoint


def _import(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.name} is not installed: pip install 'pytest-dlperf[{extra}]'"
        ) from error


def _figures_by_case(outcomes: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, float]]:
    """Return id, name and value of each figure that is known."""
    figures = []
    for outcome in outcomes:
        for name, _, path in _FIGURES:
            value: Any = outcome
            for word in path:
                value = None if value is None else value[word]
            if value is not None:
                figures.append((outcome["case"]["id"], name, float(value)))
    return figures


def _session(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return what all cases of a session share: the commit, the machines, the number."""
    classes = {o["environment"]["machine_class"] for o in outcomes if o["environment"]}
    return {
        "dlperf.cases": str(len(outcomes)),
        "dlperf.commit": ", ".join(sorted({o["commit"] for o in outcomes if o["commit"]})),
        "dlperf.machine_class": ", ".join(sorted(classes)),
    }


def _attributes(outcome: Mapping[str, Any]) -> dict[str, str]:
    found = {"case": outcome["case"]["id"], "verdict": outcome["judgement"]["verdict"]}
    if outcome["measurement"] is not None:
        found["unit"] = outcome["measurement"]["unit"]
    if outcome["environment"] is not None:
        found["machine_class"] = outcome["environment"]["machine_class"]
    return found


def _key(words: str) -> str:
    return _NOT_IN_KEYS.sub("_", words)


def _parts(values: Mapping[str, Any], size: int) -> list[dict[str, Any]]:
    """Return ``values`` in mappings of at most ``size`` entries."""
    entries = iter(values.items())
    return [dict(part) for part in iter(lambda: list(islice(entries, size)), [])]
