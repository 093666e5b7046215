"""Verdicts on what was measured elsewhere: logs, results files, baselines, plain numbers."""
