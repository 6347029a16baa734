"""Inference rules of normalisations and their gradients."""

from __future__ import annotations

from collections.abc import Callable

from torchair_autofuse.dtypes import F16, F32, DType
from torchair_autofuse.ge.infer.registry import Call, Shape, Unknown, rule
from torchair_autofuse.ge.infer.shapes import axis, broadcast_inputs, reduced


def _last(call: Call, count: int) -> Shape:
    """Shape of x with its last ``count`` dims reduced to one."""
    x = call.shape(0)
    if count > len(x):
        raise Unknown(f"{count} dims to normalise in a tensor of rank {len(x)}")
    return reduced(x, range(len(x) - count, len(x)), keep=True)


def _layer_norm_v4_statistic(call: Call) -> Shape:
    shape = call.info(1).shape  # normalized_shape is a 1-d input: its length counts
    if shape is None or len(shape) != 1 or not isinstance(shape[0], int):
        raise Unknown("length of normalized_shape is unknown")
    return _last(call, shape[0])


def _by_gamma(position: int) -> Callable[[Call], Shape]:
    return lambda call: _last(call, call.rank(position))


def _begin_axis(call: Call) -> Shape:
    begin = axis(int(call.attr("begin_norm_axis", 0)), call.rank(0))
    return _last(call, call.rank(0) - begin)


def _softmax_dtype(call: Call) -> DType:
    dtype = call.dtype(0)
    return F32 if call.attr("half_to_float", False) and dtype == F16 else dtype


rule("SoftmaxV2", 0, _softmax_dtype)
rule("LogSoftmaxV2 SoftmaxGrad LogSoftmaxGrad ConfusionSoftmaxGrad ScaledMaskedSoftmax", 0)
rule("MaskedSoftmaxWithRelPosBias", 0)

rule("LayerNormV4", [0, _layer_norm_v4_statistic, _layer_norm_v4_statistic], [0, F32, F32])
rule("LayerNorm LayerNormV3", [0, _begin_axis, _begin_axis], [0, lambda call: None, lambda call: None])
# pd_gamma and pd_beta are f32 on some chips and of gamma's dtype on others: known only where the two agree
rule("LayerNormGradV3 LayerNormGrad", [1, 4, 4], [1, *[lambda call: F32 if call.dtype(4) == F32 else None] * 2])
rule("RmsNorm GemmaRmsNorm", [0, _by_gamma(1)], [0, F32])
rule("RmsNormGrad", [0, 3], [0, F32])
_SUM = broadcast_inputs(0, 1)
rule("AddRmsNorm InplaceAddRmsNorm", [_SUM, _by_gamma(2), _SUM], [0, F32, 0])
rule("AddRmsNormCast", [_SUM, _SUM, _by_gamma(2), _SUM], [F32, 0, F32, 0])
rule("AddLayerNorm InplaceAddLayerNorm", [_SUM, _by_gamma(2), _by_gamma(2), _SUM], [0, F32, F32, 0])


def _group_statistic(call: Call) -> Shape:
    return (call.shape(0)[0], int(call.attr("num_groups")))


rule("GroupNorm GroupNormSilu", [0, _group_statistic, _group_statistic], [0, 0, 0])
# rank of mean and rstd is open: (N, groups) or (N * groups)
rule("GroupNormV2 GroupNormSwish", [0, lambda call: None, lambda call: None], [0, 0, 0])
rule("GroupNormGrad", [3, 4, 4], [3, 4, 4])

rule("BNInfer BNInferGrad BNTrainingReduceGrad SyncBatchNormBackwardElemt", 0)


def _channel(position: int) -> Callable[[Call], Shape | None]:
    return lambda call: (call.shape(position)[1],) if call.rank(position) >= 2 else None


rule("BNTrainingUpdateGrad BN3DTrainingUpdateGrad", [2, 2], [F32, F32])
rule("BatchNormV3", [0, 3, 4, 3, 4], [0, F32, F32, F32, F32])
rule("BatchNormGradV3", [0, 2, 2], [0, 2, 2])
rule("BNTrainingReduce", [_channel(0), _channel(0)], [F32, F32])
rule("InstanceNorm", [0, lambda call: None, lambda call: None], [0, 0, 0])
