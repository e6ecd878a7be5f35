"""Simulation: made-up users, fleets of real clients, and gateways that speak for many users."""
