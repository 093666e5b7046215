"""DLRM: tables, widths and the optimizer, as MLPerf Training's recommendation has them."""

from __future__ import annotations

from typing import NamedTuple

#: Adagrad and its rate: MLPerf Training, reference "recommendation_v2", README.
LEARNING_RATE = 0.005
EPSILON = 1e-8
#: Share of samples that were clicked, of those that are made here: about that of Criteo's logs of
#: seven days (Kaggle's challenge of 2014).
CLICKED = 0.25


class Size(NamedTuple):
    """How large tables and layers are."""

    #: Rows of each table: values of each categorical feature.
    rows: tuple[int, ...]
    #: Values of each feature in one sample, whose embeddings are summed.
    hots: tuple[int, ...]
    #: Numbers of a sample that are no categories.
    dense: int
    embedding: int
    #: Widths of the layers over the dense numbers; the last is ``embedding``.
    bottom: tuple[int, ...]
    #: Layers of crosses (DCNv2), and their rank.
    crosses: int
    cross_rank: int
    #: Widths of the layers over all, before the one number that is predicted.
    top: tuple[int, ...]
    learning_rate: float = LEARNING_RATE


SIZES = {
    # Criteo's click logs of 24 days, at most 40 million rows a table, made multi-hot: the same
    # README, --num_embeddings_per_feature and --multi_hot_sizes.
    "full": Size(
        rows=(
            *(40_000_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 40_000_000),
            *(3_067_956, 405_282, 10, 2_209, 11_938, 155, 4, 976, 14, 40_000_000, 40_000_000),
            *(40_000_000, 590_152, 12_973, 108, 36),
        ),
        hots=(3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1),
        dense=13,
        embedding=128,
        bottom=(512, 256, 128),
        crosses=3,
        cross_rank=512,
        top=(1024, 1024, 512, 256),
    ),
    "tiny": Size(
        rows=(1000, 500, 100, 20, 3),
        hots=(3, 1, 2, 1, 1),
        dense=4,
        embedding=16,
        bottom=(32, 16),
        crosses=2,
        cross_rank=8,
        top=(32,),
        learning_rate=0.02,
    ),
}


def owners(rows: tuple[int, ...], world_size: int) -> tuple[int, ...]:
    """Return the rank that holds each table: the largest first, to the one with fewest rows.

    Raises ``ValueError`` if there are more ranks than tables.
    """
    if world_size > len(rows):
        raise ValueError(f"{world_size} ranks share {len(rows)} tables, and each needs one")
    load = [0] * world_size
    found = [0] * len(rows)
    for table in sorted(range(len(rows)), key=lambda index: -rows[index]):
        rank = min(range(world_size), key=lambda one: load[one])
        found[table] = rank
        # One more, so that tables of no weight are spread as well
        load[rank] += rows[table] + 1
    return tuple(found)
