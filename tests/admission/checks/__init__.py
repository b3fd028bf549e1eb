"""One file of rules of `vcjob.admission.checks` each: what they reject, and what they accept."""
