"""What both grounds tell of a job, in the same words: pods, lines of logs, failures. Plain data."""
