"""Jaxprs: traced functions as lists of equations in JAX's vocabulary, to print, walk, change and evaluate.

`ir` says what they are made of, `raising` makes them of graphs, `printing` writes them as JAX does. `primitive` is what
equations call; `context` says what transformations are going on; `custom` gives primitives that users define the rules that they wrote.
"""
