"""All that is kept: baselines in git, and the history of sessions."""
