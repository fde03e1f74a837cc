"""Recorded episodes as training data: select, scrub, split and write turns; mine failures; shadow evaluation."""
