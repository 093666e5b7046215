"""Two launches that take turns: who has the turn, the ranks of a node, and what stands still."""
