"""What ranks wait for: their collectives, sends and receives, who waits for whom, and calls that do not fit together."""
