"""The commands: a module each, which `askance_lab.cli` finds by listing this directory. `shared` has no command."""
