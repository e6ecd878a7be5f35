"""One user: her example, her wallet, her reports. And many of them."""
