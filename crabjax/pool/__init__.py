"""Which documents are looked at, and which of them are taken (docs/method.md 6 and 7)."""
