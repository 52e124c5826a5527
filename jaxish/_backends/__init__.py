"""Floor 2: what runs graphs. `executable` decides how, `registry` knows who can compile, `devices` says where."""
