"""Calibration with labels: one method a file, its equation on top."""
