"""From markers and options to the cases of a session."""
