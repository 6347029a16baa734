// DataCopy and DataCopyPad between GM and UB, and UB to UB.
#include "core.h"

namespace tw {

namespace {

constexpr uint8_t kVecIn = 9, kVecOut = 10;

void aligned_gm(const char* api, uint64_t address, uint32_t esize) {
    if (address % esize != 0) {
        fail("alignment", "%s: a GM address is not aligned to the element size of %u bytes", api, esize);
    }
}

void whole_blocks(const char* api, uint64_t bytes) {
    if (bytes % 32 != 0) {
        fail("datacopy-32", "%s: %llu bytes are not a multiple of 32; the chip would silently copy less", api,
             static_cast<unsigned long long>(bytes));
    }
}

void check_dims(const char* api, const CopyDims& d, uint32_t esize, bool pad) {
    if (d.blocks > 4095) {
        fail("blockcount", "%s: blockCount %llu is not in 0..4095", api, static_cast<unsigned long long>(d.blocks));
    }
    if (pad && (d.bytes > 2097151 || d.bytes % esize != 0)) {
        fail("blocklen", "%s: blockLen %llu must be at most 2097151 bytes and a multiple of the element size %u", api,
             static_cast<unsigned long long>(d.bytes), esize);
    }
}

// One row from GM to UB at `to`; the destination was resolved and checked.
void row_in(Core& c, const char* api, GmArg& arg, uint64_t from, uint32_t to, uint64_t bytes) {
    gm_note_read(api, arg, from, bytes, false);
    memcpy(c.ub + to, reinterpret_cast<const void*>(from), bytes);
    c.set_taint(to, bytes, false);
    if (gm_tainted(arg, from, bytes)) {
        for (uint64_t i = 0; i < bytes; ++i) {
            if (gm_byte_tainted(arg, from + i)) {
                c.set_taint(to + static_cast<uint32_t>(i), 1, true);
            }
        }
    }
}

template <typename T, typename F>
void combine(uint64_t to, const uint8_t* from, uint64_t bytes, F f) {
    for (uint64_t i = 0; i < bytes; i += sizeof(T)) {
        T a, b;
        memcpy(&a, reinterpret_cast<const void*>(to + i), sizeof(T));
        memcpy(&b, from + i, sizeof(T));
        a = f(a, b);
        memcpy(reinterpret_cast<void*>(to + i), &a, sizeof(T));
    }
}

float b2f(uint16_t b) {
    uint32_t w = static_cast<uint32_t>(b) << 16;
    float f;
    memcpy(&f, &w, 4);
    return f;
}

void atomic_add(DT dt, uint64_t to, const uint8_t* from, uint64_t bytes) {
    switch (dt) {
        case F32: combine<float>(to, from, bytes, [](float a, float b) { return a + b; }); break;
        case F16:
            combine<uint16_t>(to, from, bytes,
                              [](uint16_t a, uint16_t b) { return twin_f2h(twin_h2f(a) + twin_h2f(b)); });
            break;
        case BF16:
            combine<uint16_t>(to, from, bytes, [](uint16_t a, uint16_t b) { return twin_f2b(b2f(a) + b2f(b)); });
            break;
        case I32: combine<uint32_t>(to, from, bytes, [](uint32_t a, uint32_t b) { return a + b; }); break;
        case I16:
            combine<uint16_t>(to, from, bytes, [](uint16_t a, uint16_t b) { return static_cast<uint16_t>(a + b); });
            break;
        default:
            combine<uint8_t>(to, from, bytes, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a + b); });
    }
}

void row_out(Core& c, const char* api, GmArg& arg, uint64_t to, uint32_t from, uint64_t bytes, DT dt) {
    if (c.tainted(from, bytes)) {
        fail("uninitialised", "%s stores UB bytes near %u that were never written or come from padding", api, from);
    }
    if (c.atomic) {
        if (c.atomic_dt != dt) {
            fail("atomic", "%s: the copied type is not that of SetAtomicAdd", api);
        }
        if (gm_tainted(arg, to, bytes)) {
            fail("uninitialised", "%s adds to GM that was never written; zero it first", api);
        }
    }
    gm_note_write(api, arg, to, bytes, c.atomic, false);
    if (c.atomic) {
        atomic_add(dt, to, c.ub + from, bytes);
    } else {
        memcpy(reinterpret_cast<void*>(to), c.ub + from, bytes);
    }
}

uint64_t ub_extent(uint64_t blocks, uint64_t bytes, int64_t pitch) {
    return blocks == 0 ? 0 : (blocks - 1) * static_cast<uint64_t>(pitch) + bytes;
}

}  // namespace

void copy_in_count(const char* api, const Loc& dst, const void* src, uint32_t esize, uint64_t count) {
    whole_blocks(api, count * esize);
    CopyDims d{1, count * esize, 0, 0};
    copy_in_blocks(api, dst, src, esize, d, {});
}

void copy_out_count(const char* api, const void* dst, const Loc& src, DT dt, uint32_t esize, uint64_t count) {
    whole_blocks(api, count * esize);
    CopyDims d{1, count * esize, 0, 0};
    copy_out_blocks(api, dst, src, dt, esize, d, false, false);
}

void copy_ub_count(const char* api, const Loc& dst, const Loc& src, uint32_t esize, uint64_t count) {
    whole_blocks(api, count * esize);
    CopyDims d{1, count * esize, 0, 0};
    copy_ub_blocks(api, dst, src, esize, d);
}

void copy_in_blocks(const char* api, const Loc& dst, const void* src, uint32_t esize, const CopyDims& d,
                    const Pad& pad) {
    Core& c = core();
    check_dims(api, d, esize, pad.present);
    if (d.blocks == 0 || d.bytes == 0) {
        return;
    }
    if (dst.pos != kVecIn && dst.pos != kVecOut && !(chip().arch == 3510) && pad.present) {
        fail("position", "%s: on this chip the destination must be in VECIN or VECOUT", api);
    }
    uint64_t from = reinterpret_cast<uint64_t>(src);
    if (!pad.present) {
        aligned_gm(api, from, esize);
    }
    uint32_t left = pad.left * esize, right = pad.right * esize;
    if (left > 32 || right > 32) {
        fail("padding", "%s: leftPadding and rightPadding are at most 32 bytes, here %u and %u", api, left, right);
    }
    if (pad.is_pad && esize == 8 && pad.value != 0) {
        fail("padding", "%s: paddingValue must be 0 for 64-bit types", api);
    }
    bool compact = pad.compact;
    if (compact) {
        left = right = 0;
    }
    uint64_t row = compact ? d.bytes : (left + d.bytes + right + 31) / 32 * 32;
    uint64_t pitch = compact ? d.bytes : row + static_cast<uint64_t>(d.dst_gap);
    int64_t gm_pitch = static_cast<int64_t>(d.bytes) + d.src_gap;
    uint64_t extent = compact ? (d.blocks * d.bytes + 31) / 32 * 32 : ub_extent(d.blocks, row, static_cast<int64_t>(pitch));
    uint32_t to = c.resolve(api, "dst", dst, extent, 32);
    if (gm_pitch < 0) {
        fail("stride", "%s: srcStride goes backwards beyond the block", api);
    }
    GmArg& arg = gm_find(api, from, ub_extent(d.blocks, d.bytes, gm_pitch), false);
    c.issue(PMTE2, api);
    ++c.n.dma_in;
    c.n.dma_blocks += d.blocks;
    for (uint64_t i = 0; i < d.blocks; ++i) {
        uint32_t at = to + static_cast<uint32_t>(i * pitch);
        bool last = i + 1 == d.blocks;
        uint64_t width = compact ? (last ? extent - i * d.bytes : d.bytes) : row;
        c.check_write(PMTE2, at, width, api);
        row_in(c, api, arg, from + i * static_cast<uint64_t>(gm_pitch), at + left, d.bytes);
        uint64_t tail = width - left - d.bytes;
        if (left == 0 && right == 0) {  // the dummy bytes repeat the first element of the block
            bool bad = c.tainted_elem(at, esize);
            for (uint64_t k = 0; k + esize <= tail; k += esize) {
                memcpy(c.ub + at + d.bytes + k, c.ub + at, esize);
            }
            c.set_taint(at + static_cast<uint32_t>(d.bytes), tail, bad);
        } else {
            uint64_t value = pad.is_pad ? pad.value : c.pad_value;
            bool known = pad.is_pad || c.pad_set;
            for (uint32_t k = 0; k < left; k += esize) {
                memcpy(c.ub + at + k, &value, esize);
            }
            c.set_taint(at, left, !known);
            uint32_t after = at + left + static_cast<uint32_t>(d.bytes);
            memset(c.ub + after, 0xff, tail);
            c.set_taint(after, tail, true);
            for (uint32_t k = 0; k < right; k += esize) {
                memcpy(c.ub + after + k, &value, esize);
            }
            c.set_taint(after, right, !known);
        }
        c.stamp_write(PMTE2, at, width);
    }
}

void copy_out_blocks(const char* api, const void* dst, const Loc& src, DT dt, uint32_t esize, const CopyDims& d,
                     bool padded, bool compact) {
    Core& c = core();
    check_dims(api, d, esize, padded);
    if (d.blocks == 0 || d.bytes == 0) {
        return;
    }
    if (src.pos != kVecIn && src.pos != kVecOut && !(chip().arch == 3510)) {
        fail("position", "%s: on this chip a store reads VECOUT or VECIN", api);
    }
    uint64_t to = reinterpret_cast<uint64_t>(dst);
    if (!padded) {
        aligned_gm(api, to, esize);
    }
    uint64_t row = compact ? d.bytes : (d.bytes + 31) / 32 * 32;
    uint64_t pitch = compact ? d.bytes : row + static_cast<uint64_t>(d.src_gap);
    uint32_t from = c.resolve(api, "src", src, ub_extent(d.blocks, d.bytes, static_cast<int64_t>(pitch)), 32);
    int64_t gm_pitch = static_cast<int64_t>(d.bytes) + d.dst_gap;
    if (d.dst_gap < 0) {
        fail("stride", "%s: dstStride is negative, so blocks overlap in GM", api);
    }
    GmArg& arg = gm_find(api, to, ub_extent(d.blocks, d.bytes, gm_pitch), true);
    c.issue(PMTE3, api);
    ++c.n.dma_out;
    c.n.dma_blocks += d.blocks;
    for (uint64_t i = 0; i < d.blocks; ++i) {
        uint32_t at = from + static_cast<uint32_t>(i * pitch);
        c.check_read(PMTE3, at, d.bytes, api);
        row_out(c, api, arg, to + i * static_cast<uint64_t>(gm_pitch), at, d.bytes, dt);
        c.stamp_read(PMTE3, at, d.bytes);
    }
}

void copy_ub_blocks(const char* api, const Loc& dst, const Loc& src, uint32_t esize, const CopyDims& d) {
    Core& c = core();
    check_dims(api, d, esize, false);
    if (d.blocks == 0 || d.bytes == 0) {
        return;
    }
    uint64_t src_pitch = d.bytes + static_cast<uint64_t>(d.src_gap);
    uint64_t dst_pitch = d.bytes + static_cast<uint64_t>(d.dst_gap);
    uint64_t src_extent = ub_extent(d.blocks, d.bytes, static_cast<int64_t>(src_pitch));
    uint64_t dst_extent = ub_extent(d.blocks, d.bytes, static_cast<int64_t>(dst_pitch));
    uint32_t from = c.resolve(api, "src", src, src_extent, 32);
    uint32_t to = c.resolve(api, "dst", dst, dst_extent, 32);
    if (from < to + dst_extent && to < from + src_extent) {
        for (uint64_t i = 0; i < d.blocks; ++i) {
            for (uint64_t k = 0; k < d.blocks; ++k) {
                uint64_t a = from + i * src_pitch, b = to + k * dst_pitch;
                if (a < b + d.bytes && b < a + d.bytes) {
                    fail("overlap", "%s: source and destination overlap in UB", api);
                }
            }
        }
    }
    c.issue(PV, api);
    for (uint64_t i = 0; i < d.blocks; ++i) {
        c.check_read(PV, from + static_cast<uint32_t>(i * src_pitch), d.bytes, api);
        c.check_write(PV, to + static_cast<uint32_t>(i * dst_pitch), d.bytes, api);
    }
    for (uint64_t i = 0; i < d.blocks; ++i) {
        uint32_t a = from + static_cast<uint32_t>(i * src_pitch), b = to + static_cast<uint32_t>(i * dst_pitch);
        memcpy(c.ub + b, c.ub + a, d.bytes);
        memcpy(&c.taint[b / 32], &c.taint[a / 32], d.bytes / 32 * 4);
        memcpy(&c.bits_known[b / 32], &c.bits_known[a / 32], d.bytes / 32);
        memcpy(c.bit_taint + b, c.bit_taint + a, d.bytes);
        c.stamp_read(PV, a, d.bytes);
        c.stamp_write(PV, b, d.bytes);
    }
    c.n.elements += d.blocks * d.bytes / esize;
    c.n.repeats += (d.blocks * d.bytes + 255) / 256;
}

void set_pad_value(uint64_t raw) {
    Core& c = core();
    c.issue(PS, "SetPadValue");
    c.pad_value = raw;
    c.pad_set = true;
}

void set_atomic(DT dt, int) {
    Core& c = core();
    c.atomic = true;
    c.atomic_dt = dt;
}
void clear_atomic() {
    core().atomic = false;
}

}  // namespace tw
