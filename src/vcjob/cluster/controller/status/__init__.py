"""When and how the status of a Job is written. Nothing else in the controller writes one."""
