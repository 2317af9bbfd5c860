"""What a part of the soak found: counts for a table, and every failure in words."""

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """Of one part.

    Attributes:
      what: what was done to the program.
      tried: how often.
      expected: what must hold each time.
      failures: a line each; none is the goal.
      notes: figures beside the counts.
    """

    what: str
    expected: str
    tried: int = 0
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def row(self) -> str:
        """A row of the table in docs/reliability.md."""
        notes = "; ".join(self.notes)
        return (
            f"| {self.what} | {self.tried:,} | {self.expected} | {len(self.failures)} | {notes} |"
        )


HEAD = "| what | times | what must hold | failures | notes |\n|---|---|---|---|---|"
