// Which lanes a vector instruction works on, and walking its operands block by block.
#pragma once

#include "core.h"

namespace tw {

struct Lanes {
    bool none = false;  // nothing to do
    bool flat = true;   // contiguous: `n` elements
    int64_t n = 0;
    uint32_t lanes = 0;  // per repeat, by the widest type
    int64_t reps = 1;
    uint64_t full[2] = {0, 0}, last[2] = {0, 0};  // active lanes of all but the last repeat, and of the last
    const uint64_t* of(int64_t r) const { return r + 1 == reps ? last : full; }
    bool contiguous_mask() const;  // the active lanes of every repeat are leading ones
    int64_t active() const;
};

inline uint64_t leading(int64_t n) {
    return n <= 0 ? 0 : n >= 64 ? ~0ull : (1ull << n) - 1;
}

// Resolves a form against the mask register and updates that register as the real call does. `esize`: widest type.
Lanes resolve_form(Core& c, const char* api, const Form& f, uint32_t esize, uint32_t lanes_override = 0);

struct View {
    uint32_t off, esize, blk, rep;  // rep, blk in 32 B blocks
    uint32_t blocks;                // 32 B blocks of one repeat
    uint32_t bytes_full[8], bytes_last[8];
};

uint32_t spread(const uint64_t* lanes, uint32_t first, uint32_t count, uint32_t esize);

// `zero_rep`: a destination may have repeat stride 0.
View make_view(Core& c, const char* api, const char* what, const Opd& o, const Lanes& l, bool write,
               bool zero_rep = false);

// f(block, byte mask, repeat, index of the block in the repeat) for every block with active lanes.
template <typename F>
void for_blocks(const View& v, const Lanes& l, F&& f) {
    for (int64_t r = 0; r < l.reps; ++r) {
        const uint32_t* m = r + 1 == l.reps ? v.bytes_last : v.bytes_full;
        uint32_t base = (v.off >> 5) + static_cast<uint32_t>(r) * v.rep;
        for (uint32_t j = 0; j < v.blocks; ++j) {
            if (m[j] != 0) {
                f(base + j * v.blk, m[j], r, j);
            }
        }
    }
}

// Hazard checks and stamps of a whole operand on the vector pipe.
void check_operand(Core& c, const char* api, const View& v, const Lanes& l, bool write);
void stamp_operand(Core& c, const View& v, const Lanes& l, bool write);

// Fails with `overlap` unless dst and src are the same lanes or disjoint. `accumulate`: dst may be src of later repeats.
void check_overlap(const char* api, const View& dst, const View& src, const Lanes& l, bool accumulate);

// Copies the lanes of one repeat to and from contiguous memory.
void fetch(const Core& c, const View& v, const Lanes& l, int64_t r, void* to);
void deposit(Core& c, const View& v, const Lanes& l, int64_t r, const void* from);
// One byte per lane: 1 if any byte of the element is uninitialised.
void fetch_taint(const Core& c, const View& v, const Lanes& l, int64_t r, uint8_t* to);
void deposit_taint(Core& c, const View& v, const Lanes& l, int64_t r, const uint8_t* from);
bool any_taint(const Core& c, const View& v, const Lanes& l);

inline void count_vector(Core& c, const Lanes& l, uint32_t esize) {
    int64_t n = l.active();
    c.n.elements += static_cast<uint64_t>(n);
    c.n.repeats += static_cast<uint64_t>(l.flat ? (n * esize + 255) / 256 : l.reps);
}

// ---- 16-bit floats in bulk
void h2f_n(const uint16_t* from, float* to, int64_t n);
void f2h_n(const float* from, uint16_t* to, int64_t n);
void b2f_n(const uint16_t* from, float* to, int64_t n);
void f2b_n(const float* from, uint16_t* to, int64_t n);
// Any float type in bulk; `dt` is F16, BF16 or F32.
void load_floats(DT dt, const void* from, float* to, int64_t n);
void store_floats(DT dt, const float* from, void* to, int64_t n);

}  // namespace tw
