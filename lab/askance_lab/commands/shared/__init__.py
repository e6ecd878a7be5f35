"""What several commands have in common. Nothing here is a command."""
