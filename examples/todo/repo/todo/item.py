"""A thing to do."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Item:
    """One thing to do: its text, and whether it is done."""

    text: str
    done: bool = False

    def finished(self) -> "Item":
        """The same item, done."""
        return replace(self, done=True)

    # What the text says.

    def words(self) -> list[str]:
        """The text's words."""
        return self.text.split()

    # How it is shown.

    def mark(self) -> str:
        """A box, ticked when the item is done."""
        return "[x]" if self.done else "[ ]"

    def title(self) -> str:
        """The text without blanks around it."""
        return self.text.strip()
