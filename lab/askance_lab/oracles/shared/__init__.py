"""What several oracles have in common. Every other module of `oracles` is one oracle, and ends with its `ORACLE`."""
