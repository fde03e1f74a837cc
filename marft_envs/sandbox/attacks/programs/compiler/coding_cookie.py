# A source in an encoding that does not exist.
# -*- coding: marft_left -*-
print("REACHED an encoding that does not exist")
