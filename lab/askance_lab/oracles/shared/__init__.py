"""Code that several oracles share. Every other module of `oracles` is one oracle, and ends with its `ORACLE`."""
