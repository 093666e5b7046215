"""The history: outcomes of all sessions in a database, and files of the work folder."""
