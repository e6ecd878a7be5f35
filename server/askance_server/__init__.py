"""The aggregator: rounds, ledger, strategies."""
