"""One module for each library whose states are taken; imported when the library is loaded."""
