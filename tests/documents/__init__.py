"""Figures of the documents: each is found, and held by something that prints it."""
