"""More open brackets than any parser follows."""
value = @REPEAT:50000:[(@1
