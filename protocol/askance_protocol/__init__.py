"""What client and server must agree on: pure values, no I/O, no clock, no framework."""
