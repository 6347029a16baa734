// High-level math: forms with and without sharedTmpBuffer, with and without a count, as each API has them.
#pragma once

#include "reduce.h"

namespace AscendC {
namespace twin_detail {

template <typename T>
void high(const char* api, tw::Fn fn, const LocalTensor<T>& dst, const LocalTensor<T>& src,
          const LocalTensor<uint8_t>* tmp, int64_t count, bool reuse = false) {
    TWIN_TYPES_(high-level function, kFloat<T>);
    tw::high_level(api, fn, tw::dt_v<T>, dst.loc(), &src.loc(), nullptr, {}, tmp == nullptr ? nullptr : &tmp->loc(),
                   count, reuse);
}

}  // namespace twin_detail

// dst, src [, tmp] , count
#define TWIN_HIGH_COUNT_(name)                                                                                        \
    template <typename T, bool isReuseSource = false>                                                                 \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                                      \
              const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount) {                                 \
        twin_detail::high(#name, tw::Fn::name, dstTensor, srcTensor, &sharedTmpBuffer, calCount, isReuseSource);      \
    }                                                                                                                 \
    template <typename T, bool isReuseSource = false>                                                                 \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, const uint32_t calCount) {           \
        twin_detail::high(#name, tw::Fn::name, dstTensor, srcTensor, nullptr, calCount, isReuseSource);               \
    }
// and the same for the whole source tensor
#define TWIN_HIGH_(name)                                                                                              \
    TWIN_HIGH_COUNT_(name)                                                                                            \
    template <typename T, bool isReuseSource = false>                                                                 \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                                      \
              const LocalTensor<uint8_t>& sharedTmpBuffer) {                                                          \
        twin_detail::high(#name, tw::Fn::name, dstTensor, srcTensor, &sharedTmpBuffer, srcTensor.GetSize(),           \
                          isReuseSource);                                                                             \
    }                                                                                                                 \
    template <typename T, bool isReuseSource = false>                                                                 \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor) {                                    \
        twin_detail::high(#name, tw::Fn::name, dstTensor, srcTensor, nullptr, srcTensor.GetSize(), isReuseSource);    \
    }
// no form with a temporary buffer
#define TWIN_HIGH_NO_TMP_(name)                                                                                       \
    template <typename T, bool isReuseSource = false>                                                                 \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, uint32_t calCount) {                 \
        twin_detail::high(#name, tw::Fn::name, dstTensor, srcTensor, nullptr, calCount, isReuseSource);               \
    }                                                                                                                 \
    template <typename T, bool isReuseSource = false>                                                                 \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor) {                                    \
        twin_detail::high(#name, tw::Fn::name, dstTensor, srcTensor, nullptr, srcTensor.GetSize(), isReuseSource);    \
    }

TWIN_HIGH_(Tanh)
TWIN_HIGH_(Sigmoid)
TWIN_HIGH_(Erf)
TWIN_HIGH_(Erfc)
TWIN_HIGH_(Log2)
TWIN_HIGH_(Sin)
TWIN_HIGH_(Cos)
TWIN_HIGH_(Tan)
TWIN_HIGH_(Asin)
TWIN_HIGH_(Acos)
TWIN_HIGH_(Atan)
TWIN_HIGH_(Sinh)
TWIN_HIGH_(Cosh)
TWIN_HIGH_(Asinh)
TWIN_HIGH_(Acosh)
TWIN_HIGH_(Atanh)
TWIN_HIGH_(Trunc)
TWIN_HIGH_(Frac)
TWIN_HIGH_(Sign)
TWIN_HIGH_COUNT_(Floor)
TWIN_HIGH_COUNT_(Ceil)
TWIN_HIGH_COUNT_(Round)
TWIN_HIGH_NO_TMP_(Log)
TWIN_HIGH_NO_TMP_(Log10)
#undef TWIN_HIGH_
#undef TWIN_HIGH_COUNT_
#undef TWIN_HIGH_NO_TMP_

#if __NPU_ARCH__ == 3510
template <typename T>
void Rint(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
          const uint32_t count) {
    twin_detail::high("Rint", tw::Fn::Rint, dst, src, &sharedTmpBuffer, count);
}
template <typename T>
void Rint(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count) {
    twin_detail::high("Rint", tw::Fn::Rint, dst, src, nullptr, count);
}
#endif

#if __NPU_ARCH__ != 2002
// More accurate than the instruction; the template argument has no default.
template <typename T, uint8_t taylorExpandLevel, bool isReuseSource = false>
void Exp(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, const uint32_t calCount) {
    twin_detail::high("Exp", tw::Fn::ExpHigh, dstLocal, srcLocal, nullptr, calCount, isReuseSource);
}
template <typename T, uint8_t taylorExpandLevel, bool isReuseSource = false>
void Exp(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, const LocalTensor<uint8_t>& sharedTmpBuffer,
         const uint32_t calCount) {
    twin_detail::high("Exp", tw::Fn::ExpHigh, dstLocal, srcLocal, &sharedTmpBuffer, calCount, isReuseSource);
}
#endif

template <typename T, bool highPrecision = false, bool highPerformance = false>
void Gelu(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, const LocalTensor<uint8_t>& sharedTmpBuffer,
          const uint32_t dataSize) {
    twin_detail::high("Gelu", tw::Fn::Gelu, dstLocal, srcLocal, &sharedTmpBuffer, dataSize);
}
template <typename T, bool highPrecision = false, bool highPerformance = false>
void Gelu(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, const uint32_t dataSize) {
    twin_detail::high("Gelu", tw::Fn::Gelu, dstLocal, srcLocal, nullptr, dataSize);
}
template <typename T, bool isReuseSource = false>
void Silu(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, uint32_t dataSize) {
    twin_detail::high("Silu", tw::Fn::Silu, dstLocal, srcLocal, nullptr, dataSize);
}
template <typename T, bool isReuseSource = false>
void Swish(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, uint32_t dataSize, const T scalarValue) {
    TWIN_TYPES_(Swish, twin_detail::kFloat<T>);
    tw::high_level("Swish", tw::Fn::Swish, tw::dt_v<T>, dstLocal.loc(), &srcLocal.loc(), nullptr,
                   tw::scalar_of(scalarValue), nullptr, dataSize, isReuseSource);
}

#define TWIN_CLAMP_(name)                                                                                             \
    template <typename T, bool isReuseSource = false>                                                                 \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                                      \
              const LocalTensor<uint8_t>& sharedTmpBuffer, const T scalar, const uint32_t calCount) {                 \
        TWIN_TYPES_(name, twin_detail::kFloat<T>);                                                                    \
        tw::high_level(#name, tw::Fn::name, tw::dt_v<T>, dstTensor.loc(), &srcTensor.loc(), nullptr,                  \
                       tw::scalar_of(scalar), &sharedTmpBuffer.loc(), calCount, isReuseSource);                       \
    }                                                                                                                 \
    template <typename T, bool isReuseSource = false>                                                                 \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, const T scalar,                      \
              const uint32_t calCount) {                                                                              \
        TWIN_TYPES_(name, twin_detail::kFloat<T>);                                                                    \
        tw::high_level(#name, tw::Fn::name, tw::dt_v<T>, dstTensor.loc(), &srcTensor.loc(), nullptr,                  \
                       tw::scalar_of(scalar), nullptr, calCount, isReuseSource);                                      \
    }
TWIN_CLAMP_(ClampMax)
TWIN_CLAMP_(ClampMin)
#undef TWIN_CLAMP_

// dst, src0, src1 [, tmp] [, count]
#define TWIN_HIGH2_(name, TYPES)                                                                                      \
    template <typename T, bool isReuseSource = false>                                                                 \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& src0Tensor, const LocalTensor<T>& src1Tensor,   \
              const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount) {                                 \
        TWIN_TYPES_(name, TYPES);                                                                                     \
        tw::high_level(#name, tw::Fn::name, tw::dt_v<T>, dstTensor.loc(), &src0Tensor.loc(), &src1Tensor.loc(), {},   \
                       &sharedTmpBuffer.loc(), calCount, isReuseSource);                                              \
    }                                                                                                                 \
    template <typename T, bool isReuseSource = false>                                                                 \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& src0Tensor, const LocalTensor<T>& src1Tensor,   \
              const uint32_t calCount) {                                                                              \
        TWIN_TYPES_(name, TYPES);                                                                                     \
        tw::high_level(#name, tw::Fn::name, tw::dt_v<T>, dstTensor.loc(), &src0Tensor.loc(), &src1Tensor.loc(), {},   \
                       nullptr, calCount, isReuseSource);                                                             \
    }                                                                                                                 \
    template <typename T, bool isReuseSource = false>                                                                 \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& src0Tensor, const LocalTensor<T>& src1Tensor,   \
              const LocalTensor<uint8_t>& sharedTmpBuffer) {                                                          \
        name<T, isReuseSource>(dstTensor, src0Tensor, src1Tensor, sharedTmpBuffer, src0Tensor.GetSize());             \
    }                                                                                                                 \
    template <typename T, bool isReuseSource = false>                                                                 \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& src0Tensor, const LocalTensor<T>& src1Tensor) { \
        name<T, isReuseSource>(dstTensor, src0Tensor, src1Tensor, src0Tensor.GetSize());                              \
    }
TWIN_HIGH2_(Fmod, twin_detail::kFloat<T>)
TWIN_HIGH2_(Xor, (tw::one_of<T, int16_t, uint16_t>))
#define TWIN_POWER_TYPES_ twin_detail::kFloat<T> || (std::is_same_v<T, int32_t>)
TWIN_HIGH2_(Power, TWIN_POWER_TYPES_)
#undef TWIN_HIGH2_

// Power with a scalar on either side.
#define TWIN_POWER_(FIRST, SECOND, A, B, S, SIZE)                                                                     \
    template <typename T, bool isReuseSource = false>                                                                 \
    void Power(const LocalTensor<T>& dstTensor, FIRST, SECOND, const LocalTensor<uint8_t>& sharedTmpBuffer,          \
               uint32_t calCount) {                                                                                   \
        TWIN_TYPES_(Power, TWIN_POWER_TYPES_);                                                                        \
        tw::high_level("Power", tw::Fn::Power, tw::dt_v<T>, dstTensor.loc(), A, B, tw::scalar_of(S),                  \
                       &sharedTmpBuffer.loc(), calCount, isReuseSource);                                              \
    }                                                                                                                 \
    template <typename T, bool isReuseSource = false>                                                                 \
    void Power(const LocalTensor<T>& dstTensor, FIRST, SECOND, uint32_t calCount) {                                  \
        TWIN_TYPES_(Power, TWIN_POWER_TYPES_);                                                                        \
        tw::high_level("Power", tw::Fn::Power, tw::dt_v<T>, dstTensor.loc(), A, B, tw::scalar_of(S), nullptr,         \
                       calCount, isReuseSource);                                                                      \
    }                                                                                                                 \
    template <typename T, bool isReuseSource = false>                                                                 \
    void Power(const LocalTensor<T>& dstTensor, FIRST, SECOND, const LocalTensor<uint8_t>& sharedTmpBuffer) {        \
        TWIN_TYPES_(Power, TWIN_POWER_TYPES_);                                                                        \
        tw::high_level("Power", tw::Fn::Power, tw::dt_v<T>, dstTensor.loc(), A, B, tw::scalar_of(S),                  \
                       &sharedTmpBuffer.loc(), SIZE, isReuseSource);                                                  \
    }                                                                                                                 \
    template <typename T, bool isReuseSource = false>                                                                 \
    void Power(const LocalTensor<T>& dstTensor, FIRST, SECOND) {                                                     \
        TWIN_TYPES_(Power, TWIN_POWER_TYPES_);                                                                        \
        tw::high_level("Power", tw::Fn::Power, tw::dt_v<T>, dstTensor.loc(), A, B, tw::scalar_of(S), nullptr, SIZE,   \
                       isReuseSource);                                                                                \
    }
TWIN_POWER_(const LocalTensor<T>& src0Tensor, const T& src1Scalar, &src0Tensor.loc(), nullptr, src1Scalar, src0Tensor.GetSize())
TWIN_POWER_(const T& src0Scalar, const LocalTensor<T>& src1Tensor, nullptr, &src1Tensor.loc(), src0Scalar, src1Tensor.GetSize())
#undef TWIN_POWER_
#undef TWIN_POWER_TYPES_

template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
void Broadcast(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, const uint32_t dstShape[dim],
               const uint32_t srcShape[dim], LocalTensor<uint8_t>& sharedTmpBuffer) {
    TWIN_TYPES_(Broadcast, (tw::kIs3510 ? sizeof(T) <= 8 : tw::one_of<T, int8_t, uint8_t, half, float>));
    static_assert((dim == 1 || dim == 2) && (axis == 0 || axis == 1), "Broadcast: dim is 1 or 2, axis 0 or 1");
    tw::broadcast(tw::dt_v<T>, sizeof(T), dstLocal.loc(), srcLocal.loc(), &sharedTmpBuffer.loc(), dim, axis, dstShape,
                  srcShape);
}
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
void Broadcast(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, const uint32_t dstShape[dim],
               const uint32_t srcShape[dim]) {
    TWIN_TYPES_(Broadcast, (tw::kIs3510 ? sizeof(T) <= 8 : tw::one_of<T, int8_t, uint8_t, half, float>));
    static_assert((dim == 1 || dim == 2) && (axis == 0 || axis == 1), "Broadcast: dim is 1 or 2, axis 0 or 1");
    tw::broadcast(tw::dt_v<T>, sizeof(T), dstLocal.loc(), srcLocal.loc(), nullptr, dim, axis, dstShape, srcShape);
}

}  // namespace AscendC
