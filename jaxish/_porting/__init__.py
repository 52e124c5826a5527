"""`python -m jaxish check`: which names of `jax` a code base uses, and which of them jaxish has.

`sources` finds and reads the files, `names` says what a file uses, without running it, `served` what jaxish has,
`differences` where that behaves otherwise, `verdict` brings these together, `report` prints it. Nothing here loads
before it is asked for.
"""
