"""The specs of the shipped kernels, a module for each family: every one exports ``SPECS``."""
