# A source in an encoding that is no encoding of text.
# coding: rot13
cevag("ERNPURQ guvf")
