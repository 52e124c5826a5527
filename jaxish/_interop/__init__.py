"""The PyTorch side: functions, modules and optimizers from one world as those of the other."""
