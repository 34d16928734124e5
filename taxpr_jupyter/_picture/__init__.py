"""From a program to a picture: model, drawing, DOT text, layout, SVG."""
