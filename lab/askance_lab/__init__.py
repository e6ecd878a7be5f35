"""What needs both sides: oracles, trusted curator, experiments, the `askance` command."""
