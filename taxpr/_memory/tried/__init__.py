"""Changes of the source, tried by `edit`, for `MemoryUse.advice`."""
