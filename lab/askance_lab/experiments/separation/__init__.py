"""The separation, measured: what is learned in rounds and not by whoever asks all at once (KLNRS11, §5.3)."""
