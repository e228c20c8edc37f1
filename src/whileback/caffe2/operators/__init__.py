"""Caffe2's operators, a module for each family.

For each operator its lowering to ONNX operators, and the maker of its gradient operators, stand
side by side. Importing this package fills the tables in `registry`.
"""

from whileback.caffe2.operators import accuracy as accuracy
from whileback.caffe2.operators import activations as activations
from whileback.caffe2.operators import affine as affine
from whileback.caffe2.operators import arithmetic as arithmetic
from whileback.caffe2.operators import batch_normalization as batch_normalization
from whileback.caffe2.operators import casts as casts
from whileback.caffe2.operators import channels as channels
from whileback.caffe2.operators import comparison as comparison
from whileback.caffe2.operators import concat as concat
from whileback.caffe2.operators import conv as conv
from whileback.caffe2.operators import copies as copies
from whileback.caffe2.operators import distances as distances
from whileback.caffe2.operators import dropout as dropout
from whileback.caffe2.operators import features as features
from whileback.caffe2.operators import fills as fills
from whileback.caffe2.operators import gather as gather
from whileback.caffe2.operators import ids as ids
from whileback.caffe2.operators import images as images
from whileback.caffe2.operators import layout as layout
from whileback.caffe2.operators import learning_rate as learning_rate
from whileback.caffe2.operators import lengths as lengths
from whileback.caffe2.operators import locally_connected as locally_connected
from whileback.caffe2.operators import losses as losses
from whileback.caffe2.operators import masks as masks
from whileback.caffe2.operators import merging as merging
from whileback.caffe2.operators import moments as moments
from whileback.caffe2.operators import normalization as normalization
from whileback.caffe2.operators import one_hot as one_hot
from whileback.caffe2.operators import optimizers as optimizers
from whileback.caffe2.operators import partition as partition
from whileback.caffe2.operators import piecewise as piecewise
from whileback.caffe2.operators import pooling as pooling
from whileback.caffe2.operators import powers as powers
from whileback.caffe2.operators import products as products
from whileback.caffe2.operators import random_fills as random_fills
from whileback.caffe2.operators import ranges as ranges
from whileback.caffe2.operators import ranking as ranking
from whileback.caffe2.operators import recurrent as recurrent
from whileback.caffe2.operators import reductions as reductions
from whileback.caffe2.operators import regions as regions
from whileback.caffe2.operators import reshape as reshape
from whileback.caffe2.operators import row_norms as row_norms
from whileback.caffe2.operators import row_sums as row_sums
from whileback.caffe2.operators import scaling as scaling
from whileback.caffe2.operators import search as search
from whileback.caffe2.operators import segments as segments
from whileback.caffe2.operators import selection as selection
from whileback.caffe2.operators import sequences as sequences
from whileback.caffe2.operators import slices as slices
from whileback.caffe2.operators import softmax as softmax
from whileback.caffe2.operators import softmax_loss as softmax_loss
from whileback.caffe2.operators import sparse as sparse
from whileback.caffe2.operators import sparse_optimizers as sparse_optimizers
from whileback.caffe2.operators import sums as sums
from whileback.caffe2.operators import tiling as tiling
from whileback.caffe2.operators import totals as totals
from whileback.caffe2.operators import unary as unary
