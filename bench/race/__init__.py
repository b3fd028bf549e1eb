"""The race: vcjob beside its peers, in one run."""
