"""Jobs and objects of other releases, taken over by this one, and the reverse."""
