"""Code that several strategies share. No module here is a strategy."""
