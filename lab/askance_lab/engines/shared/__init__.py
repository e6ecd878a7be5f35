"""What every engine shares: the interface, and the pool of worker processes."""
