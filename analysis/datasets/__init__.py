"""Many reports as one dataset: a Parquet file for each, and SQL over all of them."""
