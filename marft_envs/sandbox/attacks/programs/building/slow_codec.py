# A codec whose time grows with the square of the source:
# coding: punycode
# @REPEAT:60000:abcdefgh-@
