"""One pytest session: options, collection, the ``dlperf`` fixture, and what a terminal shows."""
