"""The separation, measured: what is learned in rounds but not from questions asked at once (KLNRS11, §5.3)."""
