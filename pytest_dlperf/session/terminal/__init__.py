"""What a session prints: header, progress, dry run, summary."""
