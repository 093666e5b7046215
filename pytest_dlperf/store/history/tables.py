"""The database tables of a history, and their versions."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

#: Version of the tables. 1: the first; 2: pairs that confirmed an outcome; 3: what decided it.
VERSION: Final = 3

METADATA: Final = sa.MetaData()

SCHEMA: Final = sa.Table(
    "dlperf_schema", METADATA, sa.Column("version", sa.Integer, nullable=False)
)

SESSIONS: Final = sa.Table(
    "dlperf_session",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False, unique=True),
)

#: Outcomes that may be compared: one case under equal conditions at one place.
SERIES: Final = sa.Table(
    "dlperf_series",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("case_id", sa.Text, nullable=False),
    sa.Column("machine_class", sa.Text, nullable=False),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("unit", sa.Text, nullable=False),
    #: JSON; ``null`` for outcomes of which nothing was measured.
    sa.Column("conditions", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False, unique=True),
    #: Of its outcomes, kept up to date: counting a million takes seconds.
    sa.Column("outcomes", sa.Integer, nullable=False),
    sa.Column("first", sa.Text, nullable=False),
    sa.Column("last", sa.Text, nullable=False),
    sa.Index("dlperf_series_by_case", "case_id"),
)

SOFTWARE: Final = sa.Table(
    "dlperf_software",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    #: JSON with sorted keys: names to versions.
    sa.Column("versions", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False, unique=True),
)

#: The scalars of outcomes. SQLite keeps the rows of a series together, in the order of time.
OUTCOMES: Final = sa.Table(
    "dlperf_outcome",
    METADATA,
    sa.Column("series_id", sa.ForeignKey(SERIES.c.id), primary_key=True),
    sa.Column("time", sa.Text, primary_key=True),
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    #: A digest that the same outcome has whatever file it comes from.
    sa.Column("identity", sa.Text, nullable=False, unique=True),
    sa.Column("session_id", sa.ForeignKey(SESSIONS.c.id), nullable=False),
    sa.Column("software_id", sa.ForeignKey(SOFTWARE.c.id), nullable=False),
    sa.Column("commit_hash", sa.Text, nullable=False),
    sa.Column("dirty", sa.Boolean, nullable=False),
    sa.Column("mode", sa.Text, nullable=False),
    sa.Column("verdict", sa.Text, nullable=False),
    sa.Column("failed", sa.Boolean, nullable=False),
    sa.Column("throughput", sa.Double),
    sa.Column("change", sa.Double),
    sa.Column("speedup", sa.Double),
    sa.Column("peak_memory_bytes", sa.Double),
    sa.Column("runs", sa.Integer, nullable=False),
    sa.Column("inject", sa.Double, nullable=False),
    sa.Column("disturbed", sa.Boolean, nullable=False),
    sa.Column("against", sa.Text, nullable=False),
    #: What was measured instead of the working tree, in pairs; empty where that was.
    sa.Column("arm", sa.Text, nullable=False),
    #: Commit of the stored session whose code decided in pairs, their verdict and their number;
    #: empty and 0 where stored sessions decided.
    sa.Column("confirmed_against", sa.Text, nullable=False, server_default=""),
    sa.Column("pairs_verdict", sa.Text, nullable=False, server_default=""),
    sa.Column("pairs", sa.Integer, nullable=False, server_default="0"),
    #: Code of the finding that decided, as ``worse:peak_memory``; empty where it is not known.
    sa.Column("code", sa.Text, nullable=False, server_default=""),
    sqlite_with_rowid=False,
)

#: What a series is read from. PostgreSQL keeps rows as they came, those of a series far apart;
#: from this index it reads them together, and nothing else.
POINT_COLUMNS: Final = (
    OUTCOMES.c.series_id,
    OUTCOMES.c.software_id,
    OUTCOMES.c.id,
    OUTCOMES.c.time,
    OUTCOMES.c.commit_hash,
    OUTCOMES.c.dirty,
    OUTCOMES.c.verdict,
    OUTCOMES.c.throughput,
    OUTCOMES.c.change,
    OUTCOMES.c.speedup,
    OUTCOMES.c.peak_memory_bytes,
    OUTCOMES.c.runs,
    OUTCOMES.c.mode,
    OUTCOMES.c.against,
    OUTCOMES.c.inject,
    OUTCOMES.c.arm,
    OUTCOMES.c.disturbed,
    OUTCOMES.c.confirmed_against,
    OUTCOMES.c.pairs_verdict,
    OUTCOMES.c.pairs,
    OUTCOMES.c.code,
)
BY_SERIES: Final = sa.Index(
    "dlperf_outcome_by_series",
    OUTCOMES.c.series_id,
    OUTCOMES.c.time,
    OUTCOMES.c.id,
    postgresql_include=[column.name for column in POINT_COLUMNS if not column.primary_key],
).ddl_if(dialect="postgresql")

#: Whole outcomes, apart from what a series reads.
WHOLE: Final = sa.Table(
    "dlperf_outcome_json",
    METADATA,
    sa.Column("outcome_id", sa.Integer, primary_key=True, autoincrement=False),
    #: JSON of ``core/outcome.py``, UTF-8, compressed by zlib.
    sa.Column("json", sa.LargeBinary, nullable=False),
)

#: What takes a history from each version to the next: statements, run in one transaction.
UPGRADES: Final[dict[int, tuple[str, ...]]] = {
    1: (
        "ALTER TABLE dlperf_outcome ADD COLUMN confirmed_against TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE dlperf_outcome ADD COLUMN pairs_verdict TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE dlperf_outcome ADD COLUMN pairs INTEGER NOT NULL DEFAULT 0",
        # Made anew of the columns of now
        "DROP INDEX IF EXISTS dlperf_outcome_by_series",
    ),
    2: (
        "ALTER TABLE dlperf_outcome ADD COLUMN code TEXT NOT NULL DEFAULT ''",
        "DROP INDEX IF EXISTS dlperf_outcome_by_series",
    ),
}
