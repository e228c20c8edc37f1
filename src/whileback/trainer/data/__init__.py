"""Examples from files: arrays of NumPy's and tables, fitted to what a step takes."""

from whileback.trainer.data.dataset import Dataset, read_data

__all__ = ["Dataset", "read_data"]
