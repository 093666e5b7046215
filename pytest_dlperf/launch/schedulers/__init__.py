"""Cases as jobs of a cluster: Slurm's commands and queue, heartbeats."""
