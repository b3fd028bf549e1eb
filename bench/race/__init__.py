"""The race: vcjob compared with its peers in one run."""
