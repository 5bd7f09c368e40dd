"""A to-do list in a text file."""
