"""Floor 2: the transformations, each one a thin adapter from pytrees of Arrays to torch.func and the graphs of _core."""
