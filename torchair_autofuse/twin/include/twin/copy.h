// DataCopy and DataCopyPad.
#pragma once

#include "sync.h"

namespace AscendC {

template <typename T>
constexpr bool kCopyType_ = tw::one_of<T, int8_t, uint8_t, int16_t, uint16_t, half, tw::Bf16, int32_t, uint32_t, float,
                                       int64_t, uint64_t, double> ||
                            (tw::kIs3510 && std::is_same_v<T, bool>);

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count) {
    static_assert(kCopyType_<T>, "DataCopy: dtype not supported on this chip");
    tw::copy_in_count("DataCopy", dst.loc(), src.GetPhyAddr(), sizeof(T), count);
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count) {
    static_assert(kCopyType_<T>, "DataCopy: dtype not supported on this chip");
    tw::copy_out_count("DataCopy", dst.GetPhyAddr(), src.loc(), tw::dt_v<T>, sizeof(T), count);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count) {
    static_assert(kCopyType_<T>, "DataCopy: dtype not supported on this chip");
    tw::copy_ub_count("DataCopy", dst.loc(), src.loc(), sizeof(T), count);
}

namespace twin_detail {
inline tw::CopyDims blocks32(const DataCopyParams& p) {
    return {p.blockCount, p.blockLen * 32ull, p.srcGap * 32ll, p.dstGap * 32ll};
}
template <typename P>
tw::CopyDims bytes_in(const P& p, int64_t src_gap, int64_t dst_gap) {
    return {p.blockCount, p.blockLen, src_gap, dst_gap * 32};
}
template <typename P>
tw::CopyDims bytes_out(const P& p, int64_t src_gap, int64_t dst_gap) {
    return {p.blockCount, p.blockLen, src_gap * 32, dst_gap};
}
template <typename T, typename V>
tw::Pad pad_of(bool is_pad, uint8_t left, uint8_t right, V value, bool compact) {
    tw::Pad pad;
    pad.present = true;
    pad.is_pad = is_pad;
    pad.compact = compact;
    pad.left = left;
    pad.right = right;
    __builtin_memcpy(&pad.value, &value, sizeof(V));
    return pad;
}
}  // namespace twin_detail

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& repeatParams) {
    static_assert(kCopyType_<T>, "DataCopy: dtype not supported on this chip");
    tw::copy_in_blocks("DataCopy", dst.loc(), src.GetPhyAddr(), sizeof(T), twin_detail::blocks32(repeatParams), {});
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams) {
    static_assert(kCopyType_<T>, "DataCopy: dtype not supported on this chip");
    tw::copy_out_blocks("DataCopy", dst.GetPhyAddr(), src.loc(), tw::dt_v<T>, sizeof(T),
                        twin_detail::blocks32(repeatParams), false, false);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams) {
    static_assert(kCopyType_<T>, "DataCopy: dtype not supported on this chip");
    tw::copy_ub_blocks("DataCopy", dst.loc(), src.loc(), sizeof(T), twin_detail::blocks32(repeatParams));
}

// The four forms of DataCopyPad, with the PaddingMode template parameter where the chip has it.
#if __NPU_ARCH__ == 3510
#define TWIN_PAD_TEMPLATE_ template <typename T, PaddingMode mode = PaddingMode::Normal>
#define TWIN_COMPACT_ (mode == PaddingMode::Compact)
#else
#define TWIN_PAD_TEMPLATE_ template <typename T>
#define TWIN_COMPACT_ false
#endif
#define TWIN_PAD_CHECK_                                                                     \
    static_assert(!tw::kIs2002 || sizeof(T) == 0, "DataCopyPad does not exist on this chip"); \
    static_assert(kCopyType_<T>, "DataCopyPad: dtype not supported on this chip")

TWIN_PAD_TEMPLATE_
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& dataCopyParams,
                 const DataCopyPadExtParams<T>& padParams) {
    TWIN_PAD_CHECK_;
    const auto& p = dataCopyParams;
    tw::copy_in_blocks("DataCopyPad", dst.loc(), src.GetPhyAddr(), sizeof(T),
                       twin_detail::bytes_in(p, p.srcStride, p.dstStride),
                       twin_detail::pad_of<T>(padParams.isPad, padParams.leftPadding, padParams.rightPadding,
                                              padParams.paddingValue, TWIN_COMPACT_));
}
TWIN_PAD_TEMPLATE_
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& dataCopyParams) {
    TWIN_PAD_CHECK_;
    const auto& p = dataCopyParams;
    tw::copy_out_blocks("DataCopyPad", dst.GetPhyAddr(), src.loc(), tw::dt_v<T>, sizeof(T),
                        twin_detail::bytes_out(p, p.srcStride, p.dstStride), true, TWIN_COMPACT_);
}
TWIN_PAD_TEMPLATE_
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& dataCopyParams,
                 const DataCopyPadParams& padParams) {
    TWIN_PAD_CHECK_;
    const auto& p = dataCopyParams;
    tw::copy_in_blocks("DataCopyPad", dst.loc(), src.GetPhyAddr(), sizeof(T),
                       twin_detail::bytes_in(p, p.srcGap, p.dstGap),
                       twin_detail::pad_of<T>(padParams.isPad, padParams.leftPadding, padParams.rightPadding,
                                              padParams.paddingValue, TWIN_COMPACT_));
}
TWIN_PAD_TEMPLATE_
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& dataCopyParams) {
    TWIN_PAD_CHECK_;
    const auto& p = dataCopyParams;
    tw::copy_out_blocks("DataCopyPad", dst.GetPhyAddr(), src.loc(), tw::dt_v<T>, sizeof(T),
                        twin_detail::bytes_out(p, p.srcGap, p.dstGap), true, TWIN_COMPACT_);
}
#undef TWIN_PAD_TEMPLATE_
#undef TWIN_COMPACT_
#undef TWIN_PAD_CHECK_

template <typename T, TPosition pos = TPosition::MAX>
void SetPadValue(T paddingValue) {
    static_assert(!tw::kIs2002 || sizeof(T) == 0, "SetPadValue does not exist on this chip");
    uint64_t raw = 0;
    __builtin_memcpy(&raw, &paddingValue, sizeof(T));
    tw::set_pad_value(raw);
}

}  // namespace AscendC
