"""Ladders for very small models: four families of generated problems in six levels, each meant to be a step harder.

A model of 135 M parameters solves some problems of the first levels before training and none of the last, so training
has somewhere to begin and somewhere to go. Each level has thousands of numbers to draw from, so that little recurs.
They are not a test of mathematics, programming or tool use.
"""
