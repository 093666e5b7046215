"""Send the results of a session to other places; none of it changes an exit code."""
