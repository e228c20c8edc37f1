"""How many inputs and outputs each of Caffe2's operators may have.

`1-2` stands for 1 or 2, `5,7` for 5 or 7, `2-` for 2 or more, `3+2` for 3, 5, 7 and so on.
"""

from __future__ import annotations

import re

from whileback.errors import NetDefError
from whileback.formats.caffe2.arguments import label
from whileback.formats.caffe2.caffe2_pb2 import OperatorDef

__all__ = ["check_counts"]


def check_counts(op: OperatorDef) -> None:
    """Check how many blobs an operator reads and writes, if its type is known.

    Raises: NetDefError if these are too few or too many.
    """
    for allowed, names, what in zip(
        _COUNTS.get(op.type, ()), (op.input, op.output), ("input", "output"), strict=False
    ):
        if not _allows(allowed, len(names)):
            plural = "" if allowed == "1" else "s"
            raise NetDefError(
                f"{label(op)} needs {_words(allowed)} {what}{plural}, but has {len(names)}: "
                f"{list(names)}. Correct the net."
            )


def _allows(allowed: str, count: int) -> bool:
    if "+" in allowed:
        first, step = map(int, allowed.split("+"))
        return count >= first and (count - first) % step == 0
    if "," in allowed:
        return str(count) in allowed.split(",")
    low, dash, high = allowed.partition("-")
    return int(low) <= count <= (int(high or count) if dash else int(low))


def _words(allowed: str) -> str:
    """Return how messages say it.

    >>> [_words(allowed) for allowed in ("1", "1-2", "5,7", "2-", "3+2")]
    ['1', '1 to 2', '5 or 7', '2 or more', '3, 5, 7 … ']
    """
    if "+" in allowed:
        first, step = map(int, allowed.split("+"))
        return ", ".join(str(first + k * step) for k in range(3)) + " …"
    if allowed.endswith("-"):
        return f"{allowed[:-1]} or more"
    return allowed.replace("-", " to ").replace(",", " or ")


_TABLE = """
0 1: CreateCounter CreateMutex CreateScope Float16ConstantFill Float16UniformFill
0,1,3 1: UniformFill UniformIntFill
0-1 1: DiagonalFill GaussianFill GivenTensorBoolFill GivenTensorByteStringToUInt8Fill
  GivenTensorDoubleFill GivenTensorFill GivenTensorInt16Fill GivenTensorInt64Fill GivenTensorIntFill
  GivenTensorStringFill Iter MSRAFill RangeFill XavierFill
0-2 1: ConstantFill UniqueUniformFill
1 0: Assert EnforceFinite Print ZeroGradient
1 0-1: ResetCounter Summarize
1 1: Abs Acos Alias AliasWithName ArgMax ArgMin Asin Atan AveragePool AveragePool1D AveragePool2D
  AveragePool3D AveragedLoss BatchToSpace Bucketize Cast Cbrt Ceil ChannelShuffle
  ChannelShuffleGradient CheckCounterDone Clip ColwiseMax Copy CopyCPUToGPU CopyFromCPUInput
  CopyGPUToCPU Cos Cosh CountDown CountUp Cube Elu EnsureCPUOutput EnsureDense Erf Exp ExpandDims
  FindDuplicateElements Flatten FlattenToVec FloatToHalf Floor Gelu Glu HalfToFloat HardSigmoid
  HasScope Im2Col IndexHash IntegralImage IsEmpty IsMemberOf IsNaN LeakyRelu LearningRate
  LengthsRangeFill LengthsToOffsets LengthsToRanges LengthsToSegmentIds LengthsToShape
  LengthsToWeights Log Logit LpNorm LpPool MakeTwoClass MakeTwoClassGradient MaxPool MaxPool1D
  MaxPool2D MaxPool3D MergeDim Mish Mod NCHW2NHWC NHWC2NCHW NegateGradient Negative Normalize
  NormalizeL1 Not PadImage PadImageGradient Perplexity PrependDim Reciprocal ReduceL1 ReduceL2
  ReduceMax ReduceMean ReduceMin ReduceSum ReduceTailSum Relu ReluN ReplaceNaN ResizeNearest3D
  RetrieveCount RowwiseMax Rsqrt Scale Selu Shape Sigmoid Sign Sin Sinh SinusoidPositionEncoding
  Size Softmax Softplus Softsign SpaceToBatch Sqr Sqrt Squeeze StopGradient StumpFunc SumElements
  SumElementsInt SumSqrElements Swish Tan Tanh ThresholdedRelu Transpose
1 1-: MeanGradient
1 1-2: Dropout LRN Unique
1 2: BatchMoments ChannelStats DenseVectorToIdList Moments StumpFuncIndex
1+2 1-: WeightedSumGradient
1,3 3: LayerNorm
1- 0-: If While
1- 1: HasElements Histogram Max Mean Min NanCheck Sum SumInt SumRelu
1- 1-: Do PadEmptySamples Partition RecurrentNetworkGradient ScaleBlobs
1- 2: Concat DepthConcat
1- 2-: RecurrentNetwork
1-2 1: DropoutGrad LengthsSplit Pow ReduceBackMax ReduceBackMean ReduceBackSum ReduceFrontMax
  ReduceFrontMean ReduceFrontSum ResizeNearest SegmentIdsToLengths SegmentIdsToRanges SequenceMask
  UpsampleBilinear
1-2 1-: DepthSplit Split
1-2 1-2: RemovePadding
1-2 2: Reshape
1-2 2-3: TopK
1-3 1: EnsureClipped Range Slice Tile TileGradient
1-4 1: PiecewiseLinearTransform
1-4 1-2: AddPadding
2 0-: NumpyTile
2 1: AbsGradient Accuracy AcosGradient Add And AsinGradient AtanGradient AtomicIter
  AveragedLossGradient BatchGather BatchMatMul BatchPermutation BatchPermutationGradient
  BernoulliJSD BitwiseAnd BitwiseOr BitwiseXor BooleanMaskGradient BooleanMaskLengths CbrtGradient
  ClipGradient Col2Im CopyOnDeviceLike CosGradient CoshGradient CosineEmbeddingCriterion
  CosineSimilarity CrossEntropy CubeGradient Div DotProduct DotProductWithPadding EQ EluGradient
  ErfGradient Expand ExpandGradient Find GE GT Gather GeluGradient HardSigmoidGradient L1Distance LE
  LT LabelCrossEntropy LeakyReluGradient LengthsMax LengthsMean LengthsMeanGradient LengthsPad
  LengthsSum LengthsSumGradient LengthsTile LogitGradient LpNormGradient Mul NE NormalizeGradient
  OneHot Or PRelu PackRNNSequence ReciprocalGradient ReduceFrontWeightedSum ReluGradient
  ReluNGradient RemoveDataBlocks ResizeLike ResizeNearest3DGradient ReversePackedSegs RoIAlign
  RowMul RsqrtGradient SeluGradient SigmoidCrossEntropyWithLogits SigmoidGradient SinGradient
  SinhGradient SoftmaxGradient SoftplusGradient SoftsignGradient SortedSegmentMean
  SortedSegmentMeanGradient SortedSegmentRangeLogMeanExp SortedSegmentRangeLogSumExp
  SortedSegmentRangeMax SortedSegmentRangeMean SortedSegmentRangeSum SortedSegmentSum
  SortedSegmentSumGradient SparseLengthsMeanGradient SparseLengthsSumGradient
  SparseSortedSegmentMeanGradient SparseSortedSegmentSumGradient SparseUnsortedSegmentMeanGradient
  SparseUnsortedSegmentSumGradient SquareRootDivide SquaredL2Distance Sub SumElementsGradient
  SumReduceLike TanGradient TanhGradient ThresholdedReluGradient UnpackRNNSequence UnpackSegments
  UnsortedSegmentMean UnsortedSegmentMeanGradient UnsortedSegmentSum UnsortedSegmentSumGradient
  VariableLengthSequencePadding WeightScale Xor
2 1,2: RoIPool
2 1-: SplitByLengths
2 1-2: BooleanMask GatherPadding PackSegments
2 2: FlexibleTopK GatherRanges LengthsTopK MultiClassAccuracy
2 3: MergeDenseFeatureTensors
2+2 1: BooleanUnmask WeightedSum
2+2 2: MergeIdLists
2+2 3: MergeSingleScalarFeatureTensors
2,3 1,3: AffineChannelGradient
2,4 1: SliceGradient
2- 0-: ONNXWhile
2- 1: GatherByKey
2- 1-: MergeMultiScalarFeatureTensorsGradient MergeSingleScalarFeatureTensorsGradient QuantDecode
2- 2-: LengthsPartition
2-3 1: ClipTensorByScaling Conv Conv1D Conv2D Conv3D ConvRelu ConvTranspose LC LC1D LC2D LC3D MatMul
  PairWiseLoss ReduceBackMeanGradient ReduceBackSumGradient ReduceFrontMeanGradient
  ReduceFrontSumGradient ResizeNearestGradient SparseLpRegularizer SparseNormalize SparseToDense
  SparseToDenseMaskGradient UpsampleBilinearGradient
2-3 1-: GatherRangesToDense
2-3 1-3: Conv1DGradient Conv2DGradient Conv3DGradient ConvGradient LC1DGradient LC2DGradient
  LC3DGradient LCGradient
2-3 2: SpatialSoftmaxWithLoss
2-3 2,3: SoftmaxWithLoss
3 1: AffineChannel AveragePool1DGradient AveragePool2DGradient AveragePool3DGradient
  AveragePoolGradient BatchBoxCox BatchBucketOneHot BatchDenseToSparse BatchGatherGradient
  BatchMomentsGradient BatchOneHot BernoulliJSDGradient ColwiseMaxGradient Conditional
  CopyRowsToTensor CosineEmbeddingCriterionGradient CrossEntropyGradient ElementwiseLinear FC
  FCTransposed LRNGradient LabelCrossEntropyGradient LearningRateAdaption LengthsGather
  LengthsIndicesInGradientMeanGradient LengthsIndicesInGradientSumGradient LengthsTopKGradient
  LengthsWeightedSum LengthsWeightedSumGradient LpPoolGradient MarginRankingCriterion
  MaxPool1DGradient MaxPool2DGradient MaxPool3DGradient MaxPoolGradient MishGradient Percentile
  ReduceFrontWeightedSumGradient ReduceL1Gradient ReduceL2Gradient ReduceMaxGradient
  ReduceMeanGradient ReduceMinGradient ReduceSumGradient RowwiseMaxGradient Scatter ScatterAssign
  SegmentOneHot SigmoidCrossEntropyWithLogitsGradient SortedSegmentWeightedSum
  SortedSegmentWeightedSumGradient SparseLengthsIndicesInGradientMeanGradient
  SparseLengthsIndicesInGradientSumGradient SparseLengthsMean SparseLengthsSum
  SparseLengthsWeightedSumGradient SparseSortedSegmentMean SparseSortedSegmentSum
  SparseSortedSegmentWeightedSumGradient SparseUnsortedSegmentMean SparseUnsortedSegmentSum
  SparseUnsortedSegmentWeightedSumGradient SwishGradient TopKGradient UnsortedSegmentWeightedSum
  UnsortedSegmentWeightedSumGradient WeightedSigmoidCrossEntropyWithLogits Where
3 1,3: GroupNorm
3 1-3: ConvTransposeGradient InstanceNorm
3 2: AddGradient CosineSimilarityGradient DotProductGradient DotProductWithPaddingGradient
  L1DistanceGradient MomentumSGD MulGradient RMSNorm SquaredL2DistanceGradient SubGradient
3 2-3: FCGradient FCTransposedGradient
3 3: ElementwiseLinearGradient
3+2 1: QuantDecodeGradient
3+2 1-: MergeMultiListFeatureTensorsGradient MergeMultiMapFeatureTensorsGradient
  MergeSingleListFeatureTensorsGradient MergeSingleMapFeatureTensorsGradient
3+3 3: MergeMultiScalarFeatureTensors
3+3 4: MergeSingleListFeatureTensors
3- 1-: MaxGradient MinGradient
3-4 1: BatchSparseToDense GRUUnit PairWiseLossGradient ReduceBackMaxGradient ReduceFrontMaxGradient
3-4 1-2: SparseToDenseMask
3-4 2: DivGradient Ftrl GFtrl
4 1: BatchBucketize FlexibleTopKGradient MomentsGradient SortedSegmentRangeLogMeanExpGradient
  SortedSegmentRangeLogSumExpGradient SortedSegmentRangeMaxGradient SortedSegmentRangeMeanGradient
  SortedSegmentRangeSumGradient SparseLengthsIndicesInGradientWeightedSumGradient
  SparseLengthsPositionalWeightedSum SparseLengthsWeightedSum SparseSortedSegmentWeightedSum
  SparseUnsortedSegmentWeightedSum WeightedSigmoidCrossEntropyWithLogitsGradient
4 1-: LengthsMaxWithMainInputAndForwardOutputGradient LengthsWeightedSumWithMainInputGradient
4 2: ChannelBackpropStats MarginRankingCriterionGradient PReluGradient RowWiseCounter
4 2-4: Adagrad Wngrad
4 3: MomentumSGDUpdate RMSNormGradient RmsProp
4+4 4: MergeMultiListFeatureTensors
4+4 5: MergeSingleMapFeatureTensors
4-5 1: SoftmaxWithLossGradient SpatialSoftmaxWithLossGradient
4-5 2: LSTMUnit SparseFtrl
4-6 3: InstanceNormGradient
5 1: Lars
5 1-: SparseLengthsWeightedSumWithMainInputGradient
5 2: RowWiseSparseAdagrad SparseAdagrad
  SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient SparseWngrad
5 3: Adadelta SparseMomentumSGDUpdate Storm
5+2 1: ScatterWeightedSum
5+5 5: MergeMultiMapFeatureTensors
5,6 1,3: LayerNormGradient
5,7 1,5: SpatialBN
5,7 3: SpatialBNGradient
5-6 2: GRUUnitGradient
6 3: GroupNormGradient SparseAdadelta SparseStorm
6 3-4: Adam
7 3-4: RowWiseSparseAdam SparseAdam
8-9 3: LSTMUnitGradient
"""
_COUNTS = {
    name: (inputs, outputs)
    for inputs, outputs, names in re.findall(r"^(\S+) (\S+): ((?:.|\n )+)", _TABLE, re.MULTILINE)
    for name in names.split()
}
