"""The controller next to Volcano's: its Jobs, its scheduler, its command line."""
