"""Floor 3: functions of tensors with JAX's meaning, that lax, numpy, random and nn stand on."""
