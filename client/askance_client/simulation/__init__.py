"""Many users at once: made-up users, fleets of real clients, gateways that speak for many."""
