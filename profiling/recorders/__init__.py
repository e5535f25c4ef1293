"""What records a program: each module has a function that fills an open session
(``profiling.session``)."""
