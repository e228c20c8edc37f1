"""Operators that no gradient flows through, and why."""

from __future__ import annotations

from whileback.gradient.registry import not_differentiable

not_differentiable(
    "its output jumps from one whole number to another and is constant in between",
    "Ceil",
    "Floor",
    "Round",
    "Sign",
)
not_differentiable(
    "its output is 1 at the largest element and 0 elsewhere, whatever the elements are",
    "Hardmax",
)
not_differentiable(
    "its output is a position, a whole number",
    "ArgMax",
    "ArgMin",
)
not_differentiable(
    "its output is true or false",
    "And",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "IsInf",
    "IsNaN",
    "Less",
    "LessOrEqual",
    "Not",
    "Or",
    "Xor",
)
not_differentiable(
    "it computes with the bits of whole numbers",
    "BitShift",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
)
not_differentiable(
    "its output depends on sizes alone, whole numbers",
    "BlackmanWindow",
    "HammingWindow",
    "HannWindow",
)
not_differentiable(
    "its frequencies are rounded to whole bins",
    "MelWeightMatrix",
)
not_differentiable(
    "its output depends on the shape of its input, not on the elements",
    "ConstantOfShape",
    "EyeLike",
    "RandomNormalLike",
    "RandomUniformLike",
    "Shape",
    "Size",
)
not_differentiable("its output is positions, whole numbers", "NonZero")
not_differentiable("its output is the positions of boxes, whole numbers", "NonMaxSuppression")
not_differentiable("it decodes the bytes of an image file", "ImageDecoder")
not_differentiable(
    "it computes with text",
    "RegexFullMatch",
    "StringConcat",
    "StringNormalizer",
    "StringSplit",
)
not_differentiable(
    "it counts words, and is weighted by numbers that are attributes",
    "TfIdfVectorizer",
)
not_differentiable("its output is a number of elements", "SequenceLength")
not_differentiable("its output is 0 or 1", "ai.onnx.ml::Binarizer", "ai.onnx.ml::OneHotEncoder")
not_differentiable(
    "its output is what stands in a table, and in between there is nothing",
    "ai.onnx.ml::CategoryMapper",
    "ai.onnx.ml::LabelEncoder",
)
not_differentiable(
    "it takes or gives maps, which have no gradients",
    "ai.onnx.ml::CastMap",
    "ai.onnx.ml::DictVectorizer",
    "ai.onnx.ml::ZipMap",
)
not_differentiable(
    "its output is constant between the thresholds of its trees",
    "ai.onnx.ml::TreeEnsemble",
    "ai.onnx.ml::TreeEnsembleClassifier",
    "ai.onnx.ml::TreeEnsembleRegressor",
)
not_differentiable("its output is 0 or 1, drawn at random", "Bernoulli")
not_differentiable("its output is a whole number, drawn at random", "Multinomial")
not_differentiable("its output is true or false", "OptionalHasElement")
not_differentiable("it has no input", "Constant", "RandomNormal", "RandomUniform", "SequenceEmpty")
