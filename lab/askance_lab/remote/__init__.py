"""A server over HTTP, as the lab uses it: started beside this process, or running elsewhere."""
