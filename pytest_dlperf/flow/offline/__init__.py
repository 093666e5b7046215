"""Verdicts on earlier measurements: logs, results files, baselines, plain numbers."""
