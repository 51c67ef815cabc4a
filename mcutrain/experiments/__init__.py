"""Several runs beside each other: schemes compared, a contest of them, finalists, in processes."""
