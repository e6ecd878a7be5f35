"""A server over HTTP, as the lab uses it: started for one command, or running elsewhere."""
