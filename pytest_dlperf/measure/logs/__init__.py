"""Read logs of training programs: their format, their iterations, their throughput."""
