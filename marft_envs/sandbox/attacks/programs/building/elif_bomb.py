"""As many branches as the source may hold, each inside the one before."""
import sys
value = len(sys.argv)
if value < 0:
    print("REACHED this")
@REPEAT:25000:elif value == 7:
    print(7)
@
