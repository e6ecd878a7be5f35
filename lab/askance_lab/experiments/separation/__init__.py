"""The separation, measured: what is learned in rounds, and not from all questions asked at once (KLNRS11, §5.3)."""
