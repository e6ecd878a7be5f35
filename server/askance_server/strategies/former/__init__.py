"""Strategies as they were: studies that began with one of these go on with it, and are verified by it."""
