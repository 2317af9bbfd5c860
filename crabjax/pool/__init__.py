"""Which documents are looked at, and which of them are taken (METHOD sections 6 and 7)."""
