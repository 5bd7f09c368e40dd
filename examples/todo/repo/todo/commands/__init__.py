"""What a user can do with a list, one module a command."""
