"""A corpus of any size: checked in parts on disk, picked by a few bytes of each row, and written as it goes."""
