"""The types that all other packages share: cases, runs, measurements, verdicts. No I/O."""
