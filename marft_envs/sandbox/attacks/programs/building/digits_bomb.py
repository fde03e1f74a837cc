"""A number of a million digits in the source, and one of its hexadecimal kin."""
number = 0x@REPEAT:200000:f@ + @REPEAT:800000:9@
print("contained")  # its conversion is paid by the limits of the build
