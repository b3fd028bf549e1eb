"""What a race prints and writes: goals, results as JSON, tables and pictures."""
