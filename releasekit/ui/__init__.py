"""What a person or a program sees of a run: readers of the one stream of events."""
