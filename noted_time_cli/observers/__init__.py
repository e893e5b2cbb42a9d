"""`noted-time observe`: note time for a log whose writers do not note."""
