"""As much source as is allowed that does nothing."""
@REPEAT:20000:# nothing to see on this line, nor the next
@print("contained")
