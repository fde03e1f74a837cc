"""A format string in a format string, and a hundred thousand of them."""
name = 1
text = f"{name:{name:{name}}}" @REPEAT:60000: f"{name!r:>3}"@
