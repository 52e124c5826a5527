"""Floor 1½: where arrays are. Devices, meshes, shardings, and one device's part of a graph."""
