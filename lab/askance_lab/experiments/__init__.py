"""Measurements over many seeds: trials, checkpoints, searches for the users needed, and plots."""
