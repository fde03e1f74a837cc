"""Use the CPU for ever."""
while True:
    pass
