"""What several strategies have in common. Nothing here is a strategy."""
