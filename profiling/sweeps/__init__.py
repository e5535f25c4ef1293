"""Sweeps of jobs over GPUs and hosts, on Dask, with a store that survives kills."""
