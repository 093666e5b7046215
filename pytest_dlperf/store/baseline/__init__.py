"""What a case measured before: files in git, one a case, under the machine class."""
