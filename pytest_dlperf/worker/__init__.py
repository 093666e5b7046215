"""The process of a rank: it trains the workload, times it, and writes records.

Needs the framework and the standard library only, so that it can be put on the path of
another interpreter; it never imports pytest. The pytest side gives it a command
line; it answers with files in the run's folder (``core/wire.py`` defines both).
"""
