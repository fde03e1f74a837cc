"""A syntax tree so deep that compiling it recurses too far."""
print(@REPEAT:200000:-@1)
