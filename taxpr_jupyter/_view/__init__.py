"""The panel in the browser."""
