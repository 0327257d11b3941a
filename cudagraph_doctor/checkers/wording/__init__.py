"""How findings are put into words and made from them, the same way in every checker."""
