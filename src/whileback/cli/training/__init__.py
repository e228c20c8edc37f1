"""The commands that train: `train`, `export` and `artifacts`."""
