"""One C call of many minutes that no Python signal handler can interrupt."""
print(len(str(9 ** (9**8))))
