"""Calibration without labels of the target: one method a file, its equation on top."""
