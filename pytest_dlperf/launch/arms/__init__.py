"""The stage that makes arms: trees of other commits, environments with one package changed."""
