"""The error of a hypothesis: by formula, over all points, or on fresh examples."""
