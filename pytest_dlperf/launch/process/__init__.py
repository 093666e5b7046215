"""Processes of a launch: the supervisor, the lease of the host, logs, orphans."""
