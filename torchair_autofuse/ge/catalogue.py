"""What GE op types are: class, purity, in-place behaviour; and which nodes are kernels and what they move."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from torchair_autofuse.ge.graph import Graph, Node, TensorRef
from torchair_autofuse.loop import expr


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CLASSES = {
    "elementwise": (
        "Abs Acos AcosGrad Acosh AddN Adds AscendAntiQuant AscendDequant AscendQuant AscendRequant Asin AsinGrad Asinh "
        "Atan Atanh Cast Ceil Celu CeluV2 Complex Cos Cosh Dequantize DropOutDoMask DropOutDoMaskV3 Elu EluGrad "
        "EluGradV2 Erf Erfc Erfinv Exp Expm1 FakeQuantWithMinMaxVars FastGelu FastGeluGrad FastGeluV2 Floor Gelu "
        "GeluGrad GeluGradV2 GeluQuant GeluV2 HardShrink HardShrinkGrad HardSigmoid HardSigmoidGrad HardSwish "
        "HardSwishGrad HardtanhGrad Imag Inv Invert IsFinite IsInf IsNan LeakyRelu LeakyReluGrad Log Log1p LogSigmoid "
        "LogSigmoidGrad LogicalNot Mish MishGrad Muls NanToNum Neg Power Pows Quantize Real Reciprocal Relu Relu6 "
        "Relu6Grad ReluGrad ReluGradV2 Rint Round Rsqrt Selu SeluGrad Sigmoid SigmoidGrad Sign SiluGrad Sin Sinh "
        "SoftShrink SoftShrinkGrad Softplus SoftplusGrad SoftplusV2 SoftplusV2Grad Softsign Sqrt Square Swish "
        "SwishGrad Tan Tanh TanhGrad Threshold ThresholdGradV2D ThresholdV2 TransQuantParamV2 Tril Triu Trunc"
    ),
    "broadcast": (
        "Add AddV2 Addcdiv Addcmul ApplyRotaryPosEmb AscendAntiQuantV2 AscendQuantV2 Atan2 Axpy AxpyV2 BiasAdd "
        "BitwiseAnd BitwiseOr BitwiseXor ClipByValue ClipByValueV2 Div DivNoNan Equal FloorDiv FloorMod FusedMulAdd "
        "Greater GreaterEqual InterleaveRope InvGrad LeftShift Lerp Less LessEqual LogicalAnd LogicalOr MaskedFill "
        "Maximum Minimum Mod Mul MulNoNan NotEqual PRelu PReluGrad Pow RealDiv ReciprocalGrad RightShift RotaryMul "
        "RotaryMulGrad RotaryPositionEmbedding RotaryPositionEmbeddingGrad RsqrtGrad Select SelectV2 SqrtGrad "
        "SquaredDifference Sub Sxpy TruncateDiv TruncateMod Xdivy Xlogy"
    ),
    "reduce": (
        "BNTrainingReduce DynamicQuant DynamicQuantV2 EuclideanNorm L2Loss LpNormV2 ReduceAll ReduceAny ReduceLogSum "
        "ReduceLogSumExp ReduceMax ReduceMaxD ReduceMean ReduceMeanD ReduceMeanWithCast ReduceMin ReduceMinD "
        "ReduceProd ReduceProdD ReduceStdV2 ReduceStdV2Update ReduceStdWithMean ReduceSum ReduceSumD ReduceVar "
        "SquareSumV1"
    ),
    "norm": (
        "AddLayerNorm AddLayerNormGrad AddRmsNorm AddRmsNormCast AddRmsNormDynamicQuant AddRmsNormQuant "
        "BN3DTrainingUpdateGrad BNInfer BNInferGrad BNTrainingReduceGrad BNTrainingUpdate BNTrainingUpdateGrad "
        "BatchNorm BatchNormGrad BatchNormGradV3 BatchNormV3 ConfusionSoftmaxGrad DeepNorm DeepNormGrad GemmaRmsNorm "
        "GroupNorm GroupNormGrad GroupNormSilu GroupNormSwish GroupNormV2 InplaceAddLayerNorm InplaceAddRmsNorm "
        "InstanceNorm LayerNorm LayerNormBetaGammaBackpropV2 LayerNormGrad LayerNormGradV3 LayerNormV3 LayerNormV4 "
        "LayerNormXBackpropV3 LogSoftmaxGrad LogSoftmaxV2 MaskedSoftmaxWithRelPosBias RmsNorm RmsNormGrad "
        "ScaledMaskedSoftmax SoftmaxGrad SoftmaxV2 SyncBatchNormBackwardElemt SyncBatchNormBackwardReduce"
    ),
    "move": (
        "BroadcastTo BroadcastToD Concat ConcatD ConcatV2 ConcatV2D Expand ExpandD MirrorPad Pack Pad PadD PadV2 "
        "PadV3 PadV3Grad ReverseV2 Roll Slice SliceD Split SplitD SplitV SplitVD StridedSlice StridedSliceD "
        "StridedSliceV2 StridedSliceV3 TensorMove Tile TileD TransData Transpose TransposeD Unpack"
    ),
    "view": (
        "Bitcast ExpandDims Flatten FlattenV2 Identity IdentityN Reshape Squeeze SqueezeV2 SqueezeV3 Unsqueeze "
        "UnsqueezeV2 UnsqueezeV3"
    ),
    "index": (
        "ArgMaxD ArgMaxV2 ArgMaxWithValue ArgMin ArgMinWithValue AsStrided Bincount Bucketize Cumprod Cumsum CumsumD "
        "EmbeddingBag EmbeddingDenseGrad Gather GatherElements GatherNd GatherV2 Index IndexByTensor IndexFill "
        "IndexPutV2 InplaceIndexAdd MaskedScatter MaskedSelect NonZero RepeatInterleave Scatter ScatterElements "
        "ScatterElementsV2 ScatterNdUpdate ScatterUpdate SearchSorted Sort TopK TopKV2 ViewCopy Where"
    ),
    "cube": (
        "BatchMatMul BatchMatMulV2 BatchMatMulV3 Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv2DTranspose "
        "Conv3D Conv3DBackpropFilter Conv3DBackpropInput Conv3DTranspose DepthwiseConv2D FullyConnection "
        "GroupedMatmul MatMul MatMulV2 MatMulV3 QuantBatchMatmulV3 WeightQuantBatchMatmulV2"
    ),
    "loss": (
        "BinaryCrossEntropy BinaryCrossEntropyGrad KLDiv KLDivV2 L1LossGrad LpLoss MseLoss MseLossGrad NLLLoss "
        "NLLLossGrad SigmoidCrossEntropyWithLogits SigmoidCrossEntropyWithLogitsGrad SigmoidCrossEntropyWithLogitsV2 "
        "SmoothL1Loss SmoothL1LossGrad SmoothL1LossGradV2 SmoothL1LossV2 SoftMarginLoss SoftmaxCrossEntropyWithLogits "
        "SparseSoftmaxCrossEntropyWithLogits"
    ),
    "optimizer": (
        "ApplyAdagradD ApplyAdam ApplyAdamD ApplyAdamV2 ApplyAdamW ApplyAdamWV2 ApplyFtrlD ApplyGradientDescent "
        "ApplyMomentum ApplyMomentumD ApplyRMSProp ApplyRMSPropD SGD"
    ),
    "generator": (
        "Empty Eye Fill FillD Fills LinSpace LinSpaceD MultinomialWithReplacement OneHot OneHotD OnesLike Range "
        "RangeD StatelessBernoulli StatelessDropOutGenMask StatelessRandomNormalV2 StatelessRandomUniformV2 "
        "StatelessRandperm ZerosLike"
    ),
    "shape": "Rank Shape ShapeN Size",
    "graph": "Const ConstPlaceHolder Constant Data NetOutput RefData Variable",
}

CLASS_OF: Mapping[str, str] = MappingProxyType({t: c for c, types in _CLASSES.items() for t in types.split()})
"""Op type -> its class; types not listed are "other" (see :func:`op_class`)."""

RANDOM = _words(
    "MultinomialWithReplacement StatelessBernoulli StatelessDropOutGenMask StatelessRandomNormalV2 "
    "StatelessRandomUniformV2 StatelessRandperm"
)
"""Ops whose result depends on a generator state."""

IN_PLACE = _words(
    "Assign AssignAdd AssignSub ApplyRotaryPosEmb IndexPutV2 InplaceAddLayerNorm InplaceAddRmsNorm InplaceIndexAdd "
    "KvRmsNormRopeCache MlaPrologV3 QuantUpdateScatter Scatter ScatterElementsV2 ScatterList ScatterNdUpdate "
    "ScatterPaKvCache ScatterUpdate ViewCopy FfnWorkerScheduler AttentionWorkerScheduler"
) | _words(_CLASSES["optimizer"])
"""Ops that may write into the memory of one of their inputs."""

SIDE_EFFECTS = _words("PrintV2 Assert StringFormat AttentionToFFN FFNToAttention Send Recv OutfeedEnqueueOp")
"""Ops that do something besides producing outputs. Collectives (Hcom*) are recognised by name."""

MATMUL = _words(
    "BatchMatMul BatchMatMulV2 BatchMatMulV3 MatMul MatMulV2 MatMulV3 QuantBatchMatmulV3 WeightQuantBatchMatmulV2"
)
"""Matrix products; a transposed weight costs them nothing."""
_TRANSPOSE = frozenset(("Transpose", "TransposeD"))

# Inputs that steer an op rather than feed it: axes, shapes and counts, read on the host.
_STEERING = _words(
    "axes axis begin concat_dim dimension dims end filter_size indexed_sizes indexed_strides input_size k multiples "
    "normalized_shape num orig_input_shape paddings perm shape size size_splits split_dim storage_offset stride "
    "strides offsets depth"
)
# Ops that read of their first input no more than they write.
_PICKS = _words(
    "AsStrided Gather GatherElements GatherNd GatherV2 IndexByTensor MaskedSelect Slice SliceD StridedSlice "
    "StridedSliceD StridedSliceV2 StridedSliceV3"
)
_HOST_LIMIT = 64  # elements of a tensor that shape arithmetic on the host may have


def op_class(op_type: str) -> str:
    """The class of an op type: a key of the table above (elementwise, reduce, view, ...) or "other"."""
    return CLASS_OF.get(op_type, "other")


def has_side_effect(op_type: str) -> bool:
    """Whether a node of this type must stay where it is even if nothing reads its outputs."""
    return op_type in SIDE_EFFECTS or op_type in IN_PLACE or op_type.startswith("Hcom")


def is_pure(op_type: str) -> bool:
    """Whether equal inputs and attributes give equal outputs and nothing else happens; False for unknown types."""
    return op_type in CLASS_OF and not has_side_effect(op_type) and op_type not in RANDOM


def is_noop_cast(node: Node, graph: Graph) -> bool:
    """Whether the node is a Cast to the dtype its input is known to have."""
    if node.type != "Cast" or not node.inputs or node.inputs[0] is None:
        return False
    dtype = graph.info(node.inputs[0]).dtype
    return dtype is not None and node.attrs.get("dst_type") == dtype.ge_c


def is_view(node: Node, graph: Graph) -> bool:
    """Whether the node moves no data: a reinterpretation of its input's memory, or a Cast that changes nothing."""
    return op_class(node.type) == "view" or is_noop_cast(node, graph)


@lru_cache(maxsize=8)
def constants(graph: Graph) -> frozenset[str]:
    """Names of the nodes computed from constants alone; GE folds them. The shape of a static tensor is a constant."""
    found: set[str] = set()
    for node in graph.nodes:
        if (
            node.type in ("Const", "Constant")
            or _shape_is_static(node, graph)
            or (node.name not in graph.controlled and _derived(node, found))
        ):
            found.add(node.name)
    return frozenset(found)


def _derived(node: Node, found: set[str]) -> bool:
    """Whether the node does nothing but compute from nodes in ``found``."""
    return is_pure(node.type) and bool(node.inputs) and all(r is None or r.node in found for r in node.inputs)


def _shape_is_static(node: Node, graph: Graph) -> bool:
    if op_class(node.type) != "shape":
        return False
    shapes = [graph.info(ref).shape for ref in node.inputs if ref is not None]
    if node.type == "Rank":
        return all(s is not None for s in shapes)
    return all(s is not None and all(isinstance(d, int) for d in s) for s in shapes)


@lru_cache(maxsize=8)
def host_nodes(graph: Graph) -> frozenset[str]:
    """Names of the nodes that need no device: constants, and small tensors computed from sizes and constants only."""
    found = set(constants(graph))
    for node in graph.nodes:
        if (
            op_class(node.type) == "shape"
            or _is_size_input(node, graph)
            or (_derived(node, found) and all(_is_small(ref, graph) for ref in node.outputs))
        ):
            found.add(node.name)
    return frozenset(found)


def _is_size_input(node: Node, graph: Graph) -> bool:
    """A 0-d (or packed 1-d) integer Data whose value inference knows as symbols: a SymInt."""
    return node.type in ("Data", "RefData") and graph.info(TensorRef(node.name, 0)).value is not None


def _is_small(ref: TensorRef, graph: Graph) -> bool:
    shape = graph.info(ref).shape
    if shape is None:
        return False
    count = expr.product(shape)
    return isinstance(count, int) and count <= _HOST_LIMIT


def is_kernel(node: Node, graph: Graph) -> bool:
    """Whether the node launches device work.

    Not counted: Data, Const, NetOutput, views, no-op casts, what is computed from constants alone, shape arithmetic on
    the host, and the transpose of a weight (Data) that only feeds matrix products, which GE absorbs.
    """
    if op_class(node.type) in ("graph", "shape") or is_view(node, graph) or node.name in host_nodes(graph):
        return False
    return not (node.type in _TRANSPOSE and _is_weight_transpose(node, graph))


def _is_weight_transpose(node: Node, graph: Graph) -> bool:
    source = node.inputs[0]
    while source is not None and is_view(graph.by_name[source.node], graph):
        source = graph.by_name[source.node].inputs[0]
    if source is None or graph.by_name[source.node].type not in ("Data", "RefData"):
        return False
    return _only_feeds_matmul(TensorRef(node.name, 0), graph)


def _only_feeds_matmul(ref: TensorRef, graph: Graph) -> bool:
    uses = graph.consumers.get(ref, ())
    return bool(uses) and all(
        user.type in MATMUL or (is_view(user, graph) and _only_feeds_matmul(TensorRef(user.name, 0), graph))
        for user, _ in uses
    )


def kernels(graph: Graph) -> tuple[Node, ...]:
    """The nodes that launch device work, in order."""
    return tuple(n for n in graph.nodes if is_kernel(n, graph))


def tensor_bytes(ref: TensorRef, graph: Graph, hints: Mapping[str, int]) -> int | None:
    """Size of a tensor with the symbols of its shape bound by ``hints``; None if something is unknown."""
    info = graph.info(ref)
    if info.dtype is None or info.shape is None:
        return None
    try:
        return expr.evaluate(expr.product(info.shape), dict(hints)) * info.dtype.itemsize
    except KeyError:
        return None


def gm_bytes(node: Node, graph: Graph, hints: Mapping[str, int]) -> int | None:
    """Bytes of global memory the node reads and writes: each distinct input and each output once.

    Nothing for what is no kernel. Axes, shapes and the like are read on the host and do not count; of the tensor that
    a gather or slice picks from, no more than is written counts. None when a dtype or shape is unknown.
    """
    if not is_kernel(node, graph):
        return 0
    written = [tensor_bytes(ref, graph, hints) for ref in node.outputs]
    reads: dict[TensorRef, int | None] = {}
    for i, ref in enumerate(node.inputs):
        if ref is None or (i < len(node.input_names) and node.input_names[i] in _STEERING):
            continue
        size = tensor_bytes(ref, graph, hints)
        if i == 0 and node.type in _PICKS and size is not None and written and written[0] is not None:
            size = min(size, written[0])
        reads[ref] = size
    total = 0
    for size in [*written, *reads.values()]:
        if size is None:
            return None
        total += size
    return total
