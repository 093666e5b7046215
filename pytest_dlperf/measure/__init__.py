"""From what the ranks wrote to what a run measured."""
