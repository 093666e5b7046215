"""Pages of HTML: one file each, with everything they need in it."""
