"""Statistics behind the verdicts: noise, contrasts, error rates, runs needed."""
