"""CUDA C++ sources of the catalog (package data)."""
