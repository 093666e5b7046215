"""From a case to a finished run: launchers make commands, the supervisor starts them."""
