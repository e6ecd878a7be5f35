"""What users rely on, as files that can be read: what is gone from them is found. See docs/stable.md.

`python -m tests.snapshots` writes what is new; `--breaking "why"` says that what is gone is meant to be.
"""
