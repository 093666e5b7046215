"""Launches on other hosts: channels, transports, and the programs at their far end."""
