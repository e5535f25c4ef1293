"""The Python API: what ``import ncubble`` offers (docs/api.md), and the verbs of the command line.

Objects are read-only views of reports that are read once; their numbers are those of the command
line. ``ncubble`` imports each name from its module when it is first used: pandas, plotly and the
readers load only where needed.
"""
