"""What the host itself shows: memory, node, storage, errors, heat, ranks; one module each."""
