"""A chain of attributes, calls and subscripts as long as the source may be."""
chain = ""@REPEAT:200000:.a@
