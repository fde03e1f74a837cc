"""Warnings of the parser by the hundred thousand."""
@REPEAT:25000:"\d" is 1
@
print("contained")
