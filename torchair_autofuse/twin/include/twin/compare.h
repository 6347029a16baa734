// Compare, CompareScalar (newer name Compares) and Select.
#pragma once

#include "cast.h"

namespace AscendC {
namespace twin_detail {

template <typename T>
constexpr bool kCompare = kFloat<T> || (std::is_same_v<T, int32_t> && !tw::kIs2002) ||
                          (tw::kIs3510 && in<T, int16_t, uint16_t, tw::Bf16, uint32_t>);
template <typename T> constexpr bool kCompareCount = tw::kIs3510 && in<T, int8_t, uint8_t, int64_t, uint64_t>;
template <typename T>
constexpr bool kSelect = kFloat<T> || (tw::kIs3510 && in<T, int16_t, uint16_t, tw::Bf16, int32_t, uint32_t>);
template <typename U> constexpr bool kMaskBits = in<U, uint8_t, uint16_t, uint32_t, uint64_t>;

}  // namespace twin_detail

template <typename T, typename U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
             uint32_t count) {
    TWIN_TYPES_(Compare, (tw::one_of<U, uint8_t, int8_t>) && (twin_detail::kCompare<T> || twin_detail::kCompareCount<T>));
    tw::Opd b = twin_detail::opd(src1);
    tw::compare("Compare", twin_detail::opd(dst), twin_detail::opd(src0), &b, {}, static_cast<int>(cmpMode),
                tw::count_form(count));
}
template <typename T, typename U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
             const uint64_t mask[], tw::Repeat repeatTime, const BinaryRepeatParams& repeatParams) {
    TWIN_TYPES_(Compare, (tw::one_of<U, uint8_t, int8_t>) && twin_detail::kCompare<T>);
    const auto& p = repeatParams;
    tw::Opd b = twin_detail::opd(src1, p.src1BlkStride, p.src1RepStride);
    tw::compare("Compare", twin_detail::opd(dst), twin_detail::opd(src0, p.src0BlkStride, p.src0RepStride), &b, {},
                static_cast<int>(cmpMode), tw::bits_form(mask, repeatTime, isSetMask));
}
template <typename T, typename U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
             const uint64_t mask, tw::Repeat repeatTime, const BinaryRepeatParams& repeatParams) {
    TWIN_TYPES_(Compare, (tw::one_of<U, uint8_t, int8_t>) && twin_detail::kCompare<T>);
    const auto& p = repeatParams;
    tw::Opd b = twin_detail::opd(src1, p.src1BlkStride, p.src1RepStride);
    tw::compare("Compare", twin_detail::opd(dst), twin_detail::opd(src0, p.src0BlkStride, p.src0RepStride), &b, {},
                static_cast<int>(cmpMode), tw::cont_form(mask, repeatTime, isSetMask));
}

#define TWIN_COMPARE_SCALAR_(name)                                                                                     \
    template <typename T, typename U>                                                                                  \
    void name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,             \
              uint32_t count) {                                                                                        \
        TWIN_TYPES_(name, (std::is_same_v<U, uint8_t>) && (twin_detail::kCompare<T> || twin_detail::kCompareCount<T>));\
        tw::compare(#name, twin_detail::opd(dst), twin_detail::opd(src0), nullptr, tw::scalar_of(src1Scalar),          \
                    static_cast<int>(cmpMode), tw::count_form(count));                                                 \
    }                                                                                                                  \
    template <typename T, typename U, bool isSetMask = true>                                                           \
    void name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,             \
              const uint64_t mask[], tw::Repeat repeatTime, const UnaryRepeatParams& repeatParams) {                   \
        TWIN_TYPES_(name, (std::is_same_v<U, uint8_t>) && twin_detail::kCompare<T>);                                   \
        tw::compare(#name, twin_detail::opd(dst),                                                                      \
                    twin_detail::opd(src0, repeatParams.srcBlkStride, repeatParams.srcRepStride), nullptr,             \
                    tw::scalar_of(src1Scalar), static_cast<int>(cmpMode),                                              \
                    tw::bits_form(mask, repeatTime, isSetMask));                                                       \
    }                                                                                                                  \
    template <typename T, typename U, bool isSetMask = true>                                                           \
    void name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,             \
              const uint64_t mask, tw::Repeat repeatTime, const UnaryRepeatParams& repeatParams) {                     \
        TWIN_TYPES_(name, (std::is_same_v<U, uint8_t>) && twin_detail::kCompare<T>);                                   \
        tw::compare(#name, twin_detail::opd(dst),                                                                      \
                    twin_detail::opd(src0, repeatParams.srcBlkStride, repeatParams.srcRepStride), nullptr,             \
                    tw::scalar_of(src1Scalar), static_cast<int>(cmpMode),                                              \
                    tw::cont_form(mask, repeatTime, isSetMask));                                                       \
    }
TWIN_COMPARE_SCALAR_(CompareScalar)
TWIN_COMPARE_SCALAR_(Compares)
#undef TWIN_COMPARE_SCALAR_

#define TWIN_SELECT_CHECK_(more) \
    TWIN_TYPES_(Select, (twin_detail::kMaskBits<U>) && (twin_detail::kSelect<T> || (more)))

// Two tensors (modes 0 and 2), or a tensor and a scalar (mode 1).
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, uint32_t count) {
    TWIN_SELECT_CHECK_(twin_detail::kWide3510<T>);
    tw::Opd b = twin_detail::opd(src1);
    tw::select("Select", twin_detail::opd(dst), selMask.loc(), twin_detail::opd(src0), &b, {},
               static_cast<int>(selMode), tw::count_form(count));
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, uint64_t mask[], tw::Repeat repeatTime,
            const BinaryRepeatParams& repeatParams) {
    TWIN_SELECT_CHECK_(false);
    const auto& p = repeatParams;
    tw::Opd b = twin_detail::opd(src1, p.src1BlkStride, p.src1RepStride);
    tw::select("Select", twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), selMask.loc(),
               twin_detail::opd(src0, p.src0BlkStride, p.src0RepStride), &b, {}, static_cast<int>(selMode),
               tw::bits_form(mask, repeatTime, isSetMask));
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, uint64_t mask, tw::Repeat repeatTime,
            const BinaryRepeatParams& repeatParams) {
    TWIN_SELECT_CHECK_(false);
    const auto& p = repeatParams;
    tw::Opd b = twin_detail::opd(src1, p.src1BlkStride, p.src1RepStride);
    tw::select("Select", twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), selMask.loc(),
               twin_detail::opd(src0, p.src0BlkStride, p.src0RepStride), &b, {}, static_cast<int>(selMode),
               tw::cont_form(mask, repeatTime, isSetMask));
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
            SELMODE selMode, uint32_t count) {
    TWIN_SELECT_CHECK_(twin_detail::kWide3510<T>);
    tw::select("Select", twin_detail::opd(dst), selMask.loc(), twin_detail::opd(src0), nullptr, tw::scalar_of(src1),
               static_cast<int>(selMode), tw::count_form(count));
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
            SELMODE selMode, uint64_t mask[], tw::Repeat repeatTime, const BinaryRepeatParams& repeatParams) {
    TWIN_SELECT_CHECK_(false);
    const auto& p = repeatParams;
    tw::select("Select", twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), selMask.loc(),
               twin_detail::opd(src0, p.src0BlkStride, p.src0RepStride), nullptr, tw::scalar_of(src1),
               static_cast<int>(selMode), tw::bits_form(mask, repeatTime, isSetMask));
}
template <typename T, typename U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
            SELMODE selMode, uint64_t mask, tw::Repeat repeatTime, const BinaryRepeatParams& repeatParams) {
    TWIN_SELECT_CHECK_(false);
    const auto& p = repeatParams;
    tw::select("Select", twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), selMask.loc(),
               twin_detail::opd(src0, p.src0BlkStride, p.src0RepStride), nullptr, tw::scalar_of(src1),
               static_cast<int>(selMode), tw::cont_form(mask, repeatTime, isSetMask));
}
#undef TWIN_SELECT_CHECK_

}  // namespace AscendC
