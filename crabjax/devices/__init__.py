"""How work is laid out over devices and hosts; nothing here changes a result beyond rounding."""
