"""Statistics of the verdict: levels, their spreads, contrasts, false alarms."""
