"""What large, many and hostile Jobs cost: time, memory, requests, and the delay of other Jobs."""
