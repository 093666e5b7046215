"""The other process: what runs in every rank.

Needs the framework and the standard library only, so that it can be put on the path of
another interpreter; it never imports pytest. It talks to the pytest side by argv in, and
one JSON-lines file a rank out (``records.py``).
"""
