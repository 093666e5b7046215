"""Arms of an A/B: worktrees of other commits, environments with one package changed."""
