"""Cases: from the markers and options of a session to what it runs."""
