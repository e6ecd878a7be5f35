"""The protocol in JavaScript, `protocol/web`, beside the Python."""
