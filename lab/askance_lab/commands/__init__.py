"""The `askance` command, a module a command."""
