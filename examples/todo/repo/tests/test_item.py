import unittest

from todo.item import Item


class ItemTest(unittest.TestCase):
    def test_finishing_changes_only_whether_it_is_done(self):
        self.assertEqual(Item("pay rent").finished(), Item("pay rent", done=True))

    def test_it_shows_a_box_and_its_title(self):
        self.assertEqual((Item(" pay rent ").mark(), Item(" pay rent ").title()), ("[ ]", "pay rent"))
        self.assertEqual(Item("pay rent").finished().mark(), "[x]")

    def test_words_are_split_at_blanks(self):
        self.assertEqual(Item("pay  the rent").words(), ["pay", "the", "rent"])
