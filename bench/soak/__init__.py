"""Long runs that must not grow: the controller, the local supervisor, `logs -f` and the live view (`make soak`)."""
