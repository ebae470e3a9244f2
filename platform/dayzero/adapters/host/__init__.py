"""The host itself: its clock and its memory."""
