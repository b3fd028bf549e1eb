"""Plain data with which both backends describe a job: pods, log lines, failures."""
