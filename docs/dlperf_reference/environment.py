"""Variables of the environment that have a meaning here."""

from __future__ import annotations

from typing import Final

from dlperf_reference.markdown import code, table
from dlperf_reference.source import variables

#: What a user may set.
MEANINGS: Final = {
    "DLPERF_ARM": "nothing reads it, so that `--dlperf-against=DLPERF_ARM=unchanged` is a null: "
    "the working tree beside itself; `--dlperf-selftest` does that",
    "DLPERF_CHAT_WEBHOOK": "where `--dlperf-sink=chat` posts its sentences; a secret",
    "DLPERF_GATE": "name of this gate, by which its comment or issue is found again, instead of "
    "the name of the CI's job; for jobs of a matrix on GitHub, which share one",
    "DLPERF_HISTORY": "where sessions are added to the history, as `--dlperf-history`; a URL with "
    "a password belongs here",
    "DLPERF_IMAGE": "name of the container's image, recorded in the environment; Docker tells "
    "its containers nothing: `-e DLPERF_IMAGE=name:tag`",
    "DLPERF_MACHINE_CLASS": "name of this machine's class, instead of the found one; goes "
    "before the ini key `dlperf_machine_class`",
    "DLPERF_RUNTIME_DIR": "folder of the locks, instead of `/tmp/pytest-dlperf-<uid>`: sessions "
    "that share a host must share it; others than its owner must not be able to write it",
    "DLPERF_WEBHOOK": "where `--dlperf-sink=webhook` posts the results; a secret",
}
#: What this plugin tells its own processes; nobody else sets them.
INTERNAL: Final = {
    "DLPERF_MARK": "tells a user's program that its steps are measured (`pytest_dlperf.mark`)",
    "DLPERF_MODULES": "where a rank writes what it has imported, of a pair's arm",
    "DLPERF_PADDING": "fills the environment of a pair's ranks, by another length in each launch",
    "DLPERF_RUN": "marks every process of a run, by the folder of the run",
    "DLPERF_TREES": "folders that an arm of a pair must import from",
}
#: Of others.
OTHERS: Final = {
    "CI_JOB_IMAGE, APPTAINER_CONTAINER, SINGULARITY_CONTAINER, NVIDIA_…_VERSION": "name of the "
    "image, where `DLPERF_IMAGE` is not set",
    "APPTAINER_NAME, SINGULARITY_NAME, KUBERNETES_SERVICE_HOST, container": "which kind of "
    "container this is, recorded in the environment",
    "CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER": "which GPUs there are to run on; layouts take the "
    "first ones",
    "MASTER_ADDR, MASTER_PORT": "where ranks of PyTorch meet; set for a rank alone that has none, "
    "so that `fully_shard` can make its process group",
    "OMP_NUM_THREADS": "threads of a rank, if set; else the cores are shared out evenly",
    "NVIDIA_TF32_OVERRIDE, TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "recorded with the flags for TF32; "
    "the first is set to 0 where Paddle would compute `fp32` in TF32, and an `error` where it "
    "contradicts the case's precision",
    "SLURM_JOB_ID, SLURM_JOB_NODELIST, SLURM_JOB_NUM_NODES, SLURM_GPUS_ON_NODE, "
    "SLURM_CPUS_ON_NODE, SLURMD_NODENAME": "inside an allocation its nodes are those to run on "
    "([several nodes](../where-ranks-start.md))",
    "GLOO_SOCKET_IFNAME": "the interface that gloo uses, if set; else on a single node the "
    "loopback one, and on several the one to the others",
    "GITHUB_ACTIONS, GITHUB_STEP_SUMMARY, GITHUB_WORKSPACE": "in a job of GitHub Actions: a "
    "summary and annotations are written there",
    "TF_BUILD, TEAMCITY_VERSION": "in a job of Azure Pipelines or TeamCity: what is printed has "
    "no commands of its runner, as in one of GitHub Actions",
    "GITHUB_WORKFLOW, GITHUB_JOB, CI_JOB_NAME": "name of the gate, where `DLPERF_GATE` is not set",
    "GITHUB_REPOSITORY, GITHUB_TOKEN, GITHUB_API_URL": "where `--dlperf-sink=issue` writes "
    "issues, and by which token; a secret",
    "MLFLOW_EXPERIMENT_NAME, MLFLOW_EXPERIMENT_ID, WANDB_PROJECT": "experiment and project of "
    "`--dlperf-sink`; `pytest-dlperf` where they are not set",
    "OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "named as where "
    "`--dlperf-sink=opentelemetry` sent to; OpenTelemetry's library reads them itself",
    "HOROVOD_TIMELINE, HOROVOD_STALL_CHECK_TIME_SECONDS, HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "a "
    "timeline and limits of your own stay as they are",
    "LOCAL_WORLD_SIZE": "ranks of a node, as launchers say it: set for a trace of `--dlperf-cost`",
    "TF_CONFIG": "tells the ranks of TensorFlow's own multi-worker strategy; set by its launcher",
    "TF_USE_LEGACY_KERAS": "read to tell which Keras TensorFlow brings: Horovod averages only one",
    "TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR": "left alone if set; else runs of a session share "
    "compile caches of their own",
    "PATH, PYTHONPATH": "where launchers, and modules of workloads, are looked for",
    "GIT_DIR, GIT_CEILING_DIRECTORIES, GIT_DISCOVERY_ACROSS_FILESYSTEM": "where git looks for the "
    "repository, whose commit is recorded; the first counts where no `.git` is found",
    "TMPDIR": "set for the ranks: a folder of the run, which is removed at its end",
    "JAX_COORDINATOR_ADDRESS, JAX_COORDINATOR_BIND_ADDRESS": "where ranks of JAX meet, and on a "
    "single node the address on which alone its coordinator listens; set by their launcher",
    "XLA_FLAGS, NPROC": "JAX on CPUs takes the number of its devices and threads from them; a "
    "number of devices of your own stays as it is",
    "PET_NPROC_PER_NODE": "how many ranks a `torchrun` in a command starts that does not say it",
    "PET_STANDALONE": "set to 0 for torchrun and accelerate: their ranks never meet by "
    "`--standalone`, whose port lets strangers in (`SECURITY.md`)",
    "PYTEST_ADDOPTS": "read to know whether an option of this plugin is given",
    "PYTEST_XDIST_WORKER": "says that this pytest is a worker of pytest-xdist",
}


def own() -> set[str]:
    """Return every variable with this plugin's name that the code knows."""
    return variables()


def text() -> str:
    """Return three tables; raise ``KeyError`` for a variable without a meaning."""
    public = [(code(name), MEANINGS[name]) for name in sorted(own() - set(INTERNAL))]
    internal = [(code(name), INTERNAL[name]) for name in sorted(own() & set(INTERNAL))]
    others = [
        (", ".join(map(code, names.split(", "))), meaning) for names, meaning in OTHERS.items()
    ]
    head = ("variable", "meaning")
    return (
        f"## To set\n{table(head, public)}\n"
        f"## Of others, read here\n{table(head, others)}\n"
        "## Between our own processes\nNot to be set; named here since they are seen in "
        f"process lists and dry runs.\n\n{table(head, internal)}"
    )
