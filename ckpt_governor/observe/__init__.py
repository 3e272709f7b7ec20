"""The eyes: what the file system, the host and the clocks show. Nothing here decides."""
