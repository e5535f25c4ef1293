"""Estimates held against parts that were taken out of the machine code of many launches."""
