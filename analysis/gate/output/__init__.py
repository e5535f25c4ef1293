"""Results of a check as JSON, JUnit, Markdown and annotations."""
