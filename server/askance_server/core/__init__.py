"""The pure half of the aggregator: runs of strategies, planning, estimates, and what a study does next.

Nothing here looks at a clock, a ledger, a file or a network.
"""
