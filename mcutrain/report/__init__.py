"""One self-contained HTML file that shows a scheme, its memory, its analysis, its training.

    write(collect(step, target), folder)

Imports of this package stay light: the pipeline is loaded by what needs it.
"""
