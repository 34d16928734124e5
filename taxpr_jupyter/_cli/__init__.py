"""The command `taxpr`: arguments, the function, the drawing, messages."""
