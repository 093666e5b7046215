"""Criteo's click logs as NumPy files, as TorchRec's preprocessing writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pytest_dlperf.worker.failure import WorkerFailure

from ..data_folder import candidates, other_format

DENSE = "day_0_dense.npy"


class Clicks:
    """Training samples: dense numbers, one row of each table, and whether it was clicked."""

    def __init__(self, data: str, rows: tuple[int, ...], dense: int) -> None:
        found = (one for one in candidates(data, "dlrm") if (one / DENSE).is_file())
        folder = next(found, None)
        if folder is None:
            raise other_format(data, "dlrm", f"file {DENSE}")
        self._rows = np.array(rows)
        self._dense = _read(folder / DENSE, dense)
        self._sparse = _read(folder / "day_0_sparse.npy", len(rows), len(self._dense))
        self._labels = _read(folder / "day_0_labels.npy", 1, len(self._dense))

    def __len__(self) -> int:
        return len(self._dense)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray, np.float32]:
        # Numbers of categories are hashes, and go on beyond the tables.
        rows = self._sparse[index].astype(np.int64) % self._rows
        label = np.float32(self._labels[index].item())
        return self._dense[index].astype(np.float32), rows, label


def _read(path: Path, columns: int, samples: int | None = None) -> np.ndarray:
    """Return an array that is read as it is used; raise ``WorkerFailure`` for another shape."""
    try:
        found = np.load(path, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise WorkerFailure("data-format", f"{path} cannot be read: {error}") from error
    shape = found.shape if found.ndim > 1 else (*found.shape, 1)
    wanted = (shape[0] if samples is None else samples, columns)
    if shape != wanted:
        raise WorkerFailure(
            "data-format",
            f"{path} has the shape {found.shape}, and {wanted} is needed: samples by columns",
        )
    array: np.ndarray = found.reshape(wanted)
    return array
